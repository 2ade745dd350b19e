//! What the two programs of open62541's read-speed pair share: their command
//! lines, the node that is read, and the few steps between Rust and the C library.
//!
//! The pair is open62541's own C code; Rust only calls it, as the C examples do,
//! and adds nothing to the path of a read. Both ends name themselves as the
//! certificates of `certificates.py` do, so that the security policies can be used.

use std::{
    env,
    ffi::{CStr, CString},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use open62541_sys::{
    UA_ByteString, UA_LogLevel, UA_Logger, UA_NODEID_NUMERIC, UA_NodeId, UA_STATUSCODE_GOOD,
    UA_StatusCode, UA_StatusCode_name, UA_String,
};

/// Policy of every secured endpoint (OPC UA part 7, 6.6.165).
pub const BASIC256SHA256: &CStr = c"http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256";

/// Policy of every unsecured endpoint (OPC UA part 7, 6.6.160).
pub const NONE: &CStr = c"http://opcfoundation.org/UA/SecurityPolicy#None";

/// The node that upstream's pair reads: `ns=1;i=42`.
#[must_use]
pub fn default_node() -> UA_NodeId {
    // SAFETY: builds a value from two numbers.
    unsafe { UA_NODEID_NUMERIC(1, 42) }
}

/// Why a program ends early: the text after its name, and its exit code.
pub struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// Something was tried and did not work: exit code 1.
    #[must_use]
    pub fn run(text: String) -> Self {
        Self { text, code: 1 }
    }

    /// The command line is wrong: exit code 2.
    #[must_use]
    pub fn usage(text: String) -> Self {
        Self { text, code: 2 }
    }
}

/// Runs a program and turns its failure into one line on stderr and an exit code.
pub fn run_main(name: &str, run: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{name}: {}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// Tells what was tried when `status` is not Good.
///
/// # Errors
///
/// `tried` and the status's name, exit code 1.
pub fn check(status: UA_StatusCode, tried: impl FnOnce() -> String) -> Result<(), Failure> {
    if status == UA_STATUSCODE_GOOD {
        return Ok(());
    }
    // SAFETY: the name is a static string for every code.
    let name = unsafe { CStr::from_ptr(UA_StatusCode_name(status)) };
    Err(Failure::run(format!(
        "cannot {}: {}",
        tried(),
        name.to_string_lossy()
    )))
}

/// A logger that prints only what ends the program, since stdout is the result.
#[must_use]
pub fn quiet_logger() -> *mut UA_Logger {
    // SAFETY: allocates; the configuration that takes it frees it.
    unsafe { open62541_sys::UA_Log_Stdout_new(UA_LogLevel::UA_LOGLEVEL_FATAL) }
}

/// Lends bytes to the C library as one of its strings.
///
/// The result is only good while `bytes` lives, and for calls that copy it.
#[must_use]
pub fn borrowed(bytes: &[u8]) -> UA_String {
    UA_String {
        length: bytes.len(),
        data: bytes.as_ptr().cast_mut(),
    }
}

/// Replaces a string of a configuration by a copy that the configuration owns.
pub fn assign(target: &mut UA_String, text: &CStr) {
    // SAFETY: `target` is a valid string; the copy is freed with its owner.
    unsafe {
        open62541_sys::UA_String_clear(target);
        *target = open62541_sys::UA_String_fromChars(text.as_ptr());
    }
}

/// User name and password.
pub struct User {
    /// User name.
    pub name: CString,
    /// Password.
    pub password: CString,
}

/// Certificate and private key of one end, both DER.
pub struct Identity {
    certificate: Vec<u8>,
    private_key: Vec<u8>,
}

impl Identity {
    /// Reads `NAME.cert.der` and `NAME.key.der`.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub fn read(folder: &Path, name: &str) -> Result<Self, Failure> {
        let read = |kind: &str| {
            let path = folder.join(format!("{name}.{kind}.der"));
            fs::read(&path)
                .map_err(|error| Failure::run(format!("cannot read {}: {error}", path.display())))
        };
        Ok(Self {
            certificate: read("cert")?,
            private_key: read("key")?,
        })
    }

    /// The certificate, lent.
    #[must_use]
    pub fn certificate(&self) -> UA_ByteString {
        borrowed(&self.certificate)
    }

    /// The private key, lent.
    #[must_use]
    pub fn private_key(&self) -> UA_ByteString {
        borrowed(&self.private_key)
    }
}

/// A command line: operands, and the options that both programs have.
#[derive(Default)]
pub struct Arguments {
    /// Operands in their order.
    pub operands: Vec<String>,
    /// `--user NAME:PASSWORD`.
    pub user: Option<User>,
    /// `--pki FOLDER`, the folder that `certificates.py` filled.
    pub pki: Option<PathBuf>,
    /// `--mode none|sign|sign-and-encrypt` (client).
    pub mode: Option<String>,
    /// `--spin` (server).
    pub spin: bool,
}

impl Arguments {
    /// Reads the process's command line.
    ///
    /// # Errors
    ///
    /// On an option that neither program has, or one without its value.
    pub fn parse() -> Result<Self, Failure> {
        let mut parsed = Self::default();
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| Failure::usage(format!("{word} needs a value")))
            };
            match word.as_str() {
                "--user" => parsed.user = Some(parse_user(&value()?)?),
                "--pki" => parsed.pki = Some(value()?.into()),
                "--mode" => parsed.mode = Some(value()?),
                "--spin" => parsed.spin = true,
                _ if word.starts_with("--") => {
                    return Err(Failure::usage(format!("unknown option {word}")));
                }
                _ => parsed.operands.push(word),
            }
        }
        Ok(parsed)
    }
}

fn parse_user(text: &str) -> Result<User, Failure> {
    let (name, password) = text
        .split_once(':')
        .ok_or_else(|| Failure::usage("--user takes NAME:PASSWORD".to_owned()))?;
    Ok(User {
        name: c_string(name)?,
        password: c_string(password)?,
    })
}

/// A word of the command line as C takes it.
///
/// # Errors
///
/// When it holds a NUL.
pub fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::usage(format!("{text:?} holds a NUL")))
}
