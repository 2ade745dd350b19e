//! open62541's read-speed server: `o6-read-server [port] [--spin] [--user NAME:PASSWORD] [--pki FOLDER]`.
//!
//! Offers `ns=1;i=42`, browse name `current-time-nanoseconds`, under Objects: a
//! read-only UInt64 with the nanoseconds of the day, taken from a data source at
//! each read. Prints `listening on opc.tcp://127.0.0.1:PORT` once it accepts
//! connections (port 0, the default: a free one) and serves until it is killed.
//!
//! Each turn of its loop is `UA_Server_run_iterate(server, true)`, which sleeps
//! until something arrives. With `--spin` it is `UA_Server_run_iterate(server,
//! false)`, which never sleeps: upstream's read-speed server does that.

use std::{
    ffi::c_void,
    mem, process, ptr,
    sync::OnceLock,
    time::{Instant, SystemTime},
};

use open62541_peers::{
    Arguments, BASIC256SHA256, Failure, Identity, User, assign, borrowed, check, default_node,
    quiet_logger, run_main,
};
use open62541_sys as ua;

const NANOSECONDS_PER_DAY: u128 = 86_400_000_000_000;

fn main() -> process::ExitCode {
    run_main("o6-read-server", run)
}

fn run() -> Result<(), Failure> {
    let arguments = Arguments::parse()?;
    let port: u16 = match arguments.operands.as_slice() {
        [] => 0,
        [port] => port
            .parse()
            .map_err(|_| Failure::usage(format!("{port} is not a port")))?,
        _ => return Err(Failure::usage("usage: o6-read-server [port]".to_owned())),
    };
    let identity = arguments
        .pki
        .map(|folder| Identity::read(&folder, "server"))
        .transpose()?;
    let mut config = configure(port, identity.as_ref(), arguments.user.as_ref())?;

    // SAFETY: takes the configuration's content over and empties it.
    let server = unsafe { ua::UA_Server_newWithConfig(&raw mut config) };
    if server.is_null() {
        return Err(Failure::run("cannot create the server".to_owned()));
    }
    add_time_of_day(server)?;
    // SAFETY: `server` is valid until the process ends.
    check(unsafe { ua::UA_Server_run_startup(server) }, || {
        format!("listen on port {port}")
    })?;
    println!("listening on opc.tcp://127.0.0.1:{}", bound_port(server)?);
    loop {
        // SAFETY: `server` has been started, and this thread alone uses it.
        unsafe { ua::UA_Server_run_iterate(server, !arguments.spin) };
    }
}

/// Security None always; with an identity also `Basic256Sha256`, signed and signed
/// and encrypted, for any client certificate. With a user anonymous logins are
/// refused, so that a read shows that the password was checked.
fn configure(
    port: u16,
    identity: Option<&Identity>,
    user: Option<&User>,
) -> Result<ua::UA_ServerConfig, Failure> {
    let certificate = identity.map(Identity::certificate);
    // SAFETY: zeroes are the empty configuration, as in the C examples; the calls
    // get valid pointers and copy what they are lent.
    unsafe {
        let mut config: ua::UA_ServerConfig = mem::zeroed();
        config.logging = quiet_logger();
        check(
            ua::UA_ServerConfig_setMinimal(
                &raw mut config,
                port,
                certificate.as_ref().map_or(ptr::null(), ptr::from_ref),
            ),
            || "set the configuration".to_owned(),
        )?;
        if let Some(identity) = identity {
            assign(
                &mut config.applicationDescription.applicationUri,
                c"urn:interop:server",
            );
            offer_basic256sha256(&mut config, identity)?;
        }
        let logins: Vec<_> = user
            .iter()
            .map(|user| ua::UA_UsernamePasswordLogin {
                username: borrowed(user.name.as_bytes()),
                password: borrowed(user.password.as_bytes()),
            })
            .collect();
        config.allowNonePolicyPassword = true;
        check(
            ua::UA_AccessControl_default(
                &raw mut config,
                logins.is_empty(),
                ptr::null(),
                logins.len(),
                logins.as_ptr(),
            ),
            || "set the access control".to_owned(),
        )?;
        Ok(config)
    }
}

fn offer_basic256sha256(
    config: &mut ua::UA_ServerConfig,
    identity: &Identity,
) -> Result<(), Failure> {
    let certificate = identity.certificate();
    let private_key = identity.private_key();
    // SAFETY: as in `configure`.
    unsafe {
        check(
            ua::UA_ServerConfig_addSecurityPolicyBasic256Sha256(
                config,
                &raw const certificate,
                &raw const private_key,
            ),
            || "use the certificate".to_owned(),
        )?;
        for mode in [
            ua::UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_SIGN,
            ua::UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_SIGNANDENCRYPT,
        ] {
            let policy = borrowed(BASIC256SHA256.to_bytes());
            check(
                ua::UA_ServerConfig_addEndpoint(config, policy, mode),
                || "add a secured endpoint".to_owned(),
            )?;
        }
    }
    Ok(())
}

fn add_time_of_day(server: *mut ua::UA_Server) -> Result<(), Failure> {
    let browse_name = c"current-time-nanoseconds";
    let display_name = c"Current nanoseconds of the day";
    // SAFETY: `server` is valid; strings and attributes are copied by the call,
    // the attributes' defaults own nothing.
    unsafe {
        let mut attributes = ptr::read(&raw const ua::UA_VariableAttributes_default);
        attributes.displayName =
            ua::UA_LOCALIZEDTEXT(c"en".as_ptr().cast_mut(), display_name.as_ptr().cast_mut());
        attributes.accessLevel = u8::try_from(ua::UA_ACCESSLEVELMASK_READ).unwrap_or_default();
        attributes.dataType =
            ptr::read(&raw const ua::UA_TYPES[ua::UA_TYPES_UINT64 as usize].typeId);
        attributes.valueRank = ua::UA_VALUERANK_SCALAR;
        let source = ua::UA_CallbackValueSource {
            read: Some(read_time_of_day),
            write: None,
        };
        check(
            ua::UA_Server_addCallbackValueSourceVariableNode(
                server,
                default_node(),
                ua::UA_NODEID_NUMERIC(0, ua::UA_NS0ID_OBJECTSFOLDER),
                ua::UA_NODEID_NUMERIC(0, ua::UA_NS0ID_ORGANIZES),
                ua::UA_QUALIFIEDNAME(1, browse_name.as_ptr().cast_mut()),
                ua::UA_NODEID_NUMERIC(0, ua::UA_NS0ID_BASEDATAVARIABLETYPE),
                attributes,
                source,
                ptr::null_mut(),
                ptr::null_mut(),
            ),
            || "add ns=1;i=42".to_owned(),
        )
    }
}

/// The data source of `ns=1;i=42`.
unsafe extern "C" fn read_time_of_day(
    _server: *mut ua::UA_Server,
    _session_id: *const ua::UA_NodeId,
    _session_context: *mut c_void,
    _node_id: *const ua::UA_NodeId,
    _node_context: *mut c_void,
    _include_source_timestamp: bool,
    _range: *const ua::UA_NumericRange,
    value: *mut ua::UA_DataValue,
) -> ua::UA_StatusCode {
    let now = nanoseconds_of_day();
    // SAFETY: the server passes a valid, empty value, which gets a copy of `now`.
    unsafe {
        (*value).set_hasValue(true);
        ua::UA_Variant_setScalarCopy(
            &raw mut (*value).value,
            (&raw const now).cast(),
            &raw const ua::UA_TYPES[ua::UA_TYPES_UINT64 as usize],
        )
    }
}

/// Nanoseconds since midnight UTC by the wall clock of the start and the monotonic
/// clock since, so that they fall at midnight only.
fn nanoseconds_of_day() -> u64 {
    static START: OnceLock<(u128, Instant)> = OnceLock::new();
    let (at_start, start) = START.get_or_init(|| {
        let wall = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        (wall.as_nanos(), Instant::now())
    });
    let of_day = (at_start + start.elapsed().as_nanos()) % NANOSECONDS_PER_DAY;
    u64::try_from(of_day).unwrap_or_default()
}

/// The port that the server listens on, from the discovery URLs that it has set
/// (`opc.tcp://HOST:PORT`) for its sockets.
fn bound_port(server: *mut ua::UA_Server) -> Result<u16, Failure> {
    // SAFETY: the started server's configuration is valid, and so are its URLs.
    let urls = unsafe {
        let description = &(*ua::UA_Server_getConfig(server)).applicationDescription;
        std::slice::from_raw_parts(description.discoveryUrls, description.discoveryUrlsSize)
    };
    urls.iter()
        .find_map(|url| {
            // SAFETY: a string of the library, whose length is right.
            let bytes = unsafe { std::slice::from_raw_parts(url.data, url.length) };
            let (_, port) = std::str::from_utf8(bytes).ok()?.rsplit_once(':')?;
            port.parse().ok()
        })
        .ok_or_else(|| Failure::run("cannot tell the port: no socket was opened".to_owned()))
}
