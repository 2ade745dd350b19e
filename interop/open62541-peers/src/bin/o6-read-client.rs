//! open62541's read-speed client: `o6-read-client <url> [reads] [node-id] [--user
//! NAME:PASSWORD] [--pki FOLDER] [--mode none|sign|sign-and-encrypt]`.
//!
//! Reads one node as often as it can with the library's blocking read, and prints
//! upstream's header, and its row every 100,000 reads and for what is left at the
//! end. Without `[reads]` it reads until it is killed. The last line on stderr
//! tells the whole run's reads per second.
//!
//! The times of a row are upstream's: differences of successive values of
//! `ns=1;i=42` (UInt64, nanoseconds of the day); on another node, of the client's
//! clock. Unlike upstream a read that fails ends the run with exit code 1, and so
//! does a value of the wrong type, or one that does not rise.

use std::{mem, process, ptr, time::Instant};

use open62541_peers::{
    Arguments, BASIC256SHA256, Failure, Identity, NONE, assign, borrowed, c_string, check,
    default_node, quiet_logger, run_main,
};
use open62541_sys as ua;

/// Reads in a row, as upstream.
const ROW: u64 = 100_000;

const HALF_A_DAY_NS: u64 = 43_200_000_000_000;

fn main() -> process::ExitCode {
    run_main("o6-read-client", run)
}

fn run() -> Result<(), Failure> {
    let arguments = Arguments::parse()?;
    let (url, reads, node) = match arguments.operands.as_slice() {
        [url] => (url, None, default_node()),
        [url, reads] => (url, Some(parse_reads(reads)?), default_node()),
        [url, reads, node] => (url, Some(parse_reads(reads)?), parse_node(node)?),
        _ => {
            let usage = "usage: o6-read-client <url> [reads] [node-id]";
            return Err(Failure::usage(usage.to_owned()));
        }
    };
    let client = connect(url, &arguments)?;
    let result = read_loop(client, &node, reads.unwrap_or(u64::MAX));
    // SAFETY: `client` is valid and not used after this.
    unsafe {
        ua::UA_Client_disconnect(client);
        ua::UA_Client_delete(client);
    }
    result
}

fn parse_reads(text: &str) -> Result<u64, Failure> {
    match text.parse() {
        Ok(reads) if reads > 0 => Ok(reads),
        _ => Err(Failure::usage(format!("{text} is not a number of reads"))),
    }
}

fn parse_node(text: &str) -> Result<ua::UA_NodeId, Failure> {
    // SAFETY: zeroes are the null node id; the text lives through the call.
    unsafe {
        let mut node: ua::UA_NodeId = mem::zeroed();
        match ua::UA_NodeId_parse(&raw mut node, borrowed(text.as_bytes())) {
            ua::UA_STATUSCODE_GOOD => Ok(node),
            _ => Err(Failure::usage(format!("{text} is not a node id"))),
        }
    }
}

fn connect(url: &str, arguments: &Arguments) -> Result<*mut ua::UA_Client, Failure> {
    let mode = arguments.mode.as_deref().unwrap_or("none");
    let (security_mode, policy) = match mode {
        "none" => (
            ua::UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_NONE,
            NONE,
        ),
        "sign" => (
            ua::UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_SIGN,
            BASIC256SHA256,
        ),
        "sign-and-encrypt" => (
            ua::UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_SIGNANDENCRYPT,
            BASIC256SHA256,
        ),
        _ => return Err(Failure::usage(format!("{mode} is not a security mode"))),
    };
    let identity = match &arguments.pki {
        Some(folder) => Some(Identity::read(folder, "client")?),
        None if mode == "none" => None,
        None => return Err(Failure::usage(format!("--mode {mode} needs --pki"))),
    };
    let c_url = c_string(url)?;
    // SAFETY: zeroes are the empty configuration, as in the C examples; what is
    // lent to a call lives through it and is copied by it; the client takes the
    // configuration's content over.
    unsafe {
        let mut config: ua::UA_ClientConfig = mem::zeroed();
        config.logging = quiet_logger();
        let status = match &identity {
            None => ua::UA_ClientConfig_setDefault(&raw mut config),
            Some(identity) => ua::UA_ClientConfig_setDefaultEncryption(
                &raw mut config,
                identity.certificate(),
                identity.private_key(),
                ptr::null(),
                0,
                ptr::null(),
                0,
            ),
        };
        check(status, || "set the configuration".to_owned())?;
        if identity.is_some() {
            assign(
                &mut config.clientDescription.applicationUri,
                c"urn:interop:client",
            );
            ua::UA_CertificateGroup_AcceptAll(&raw mut config.certificateVerification);
        }
        config.securityMode = security_mode;
        assign(&mut config.securityPolicyUri, policy);
        if let Some(user) = &arguments.user {
            config.allowNonePolicyPassword = true;
            check(
                ua::UA_ClientConfig_setAuthenticationUsername(
                    &raw mut config,
                    user.name.as_ptr(),
                    user.password.as_ptr(),
                ),
                || "set the user".to_owned(),
            )?;
        }
        let client = ua::UA_Client_newWithConfig(&raw const config);
        if client.is_null() {
            return Err(Failure::run("cannot create the client".to_owned()));
        }
        check(ua::UA_Client_connect(client, c_url.as_ptr()), || {
            format!("connect to {url}")
        })?;
        Ok(client)
    }
}

fn read_loop(client: *mut ua::UA_Client, node: &ua::UA_NodeId, reads: u64) -> Result<(), Failure> {
    let reader = Reader::new(client, node);
    println!("------ Starting reading loop. ------");
    println!("readPerSec\t readTimeAvg\treadTimeMin\t  readTimeMax");

    let start = Instant::now();
    let mut row = Row::default();
    let mut row_start = start;
    let mut previous = reader.read()?;
    for done in 1..=reads {
        let now = reader.read()?;
        row.add(previous, now)?;
        previous = now;
        if row.reads == ROW || done == reads {
            let row_end = Instant::now();
            println!("{}", row.line((row_end - row_start).as_secs_f64()));
            row = Row::default();
            row_start = row_end;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = as_f64(reads) / seconds;
    eprintln!("{reads} reads in {seconds:.3} s: {rate:.0} reads/s");
    Ok(())
}

/// One node, read with the library's blocking service call.
struct Reader<'a> {
    client: *mut ua::UA_Client,
    node: &'a ua::UA_NodeId,
    /// Whether the values are the server's time.
    is_default: bool,
    start: Instant,
}

impl<'a> Reader<'a> {
    fn new(client: *mut ua::UA_Client, node: &'a ua::UA_NodeId) -> Self {
        let default = default_node();
        // SAFETY: both are valid node ids.
        let is_default = unsafe { ua::UA_NodeId_equal(node, &raw const default) };
        Self {
            client,
            node,
            is_default,
            start: Instant::now(),
        }
    }

    /// Reads the node once; returns its time stamp in nanoseconds.
    fn read(&self) -> Result<u64, Failure> {
        // SAFETY: `client` and `node` outlive `self`. The call borrows the node id
        // that it takes by value, as in C; the variant is cleared once.
        unsafe {
            let mut value: ua::UA_Variant = mem::zeroed();
            let status =
                ua::UA_Client_readValueAttribute(self.client, ptr::read(self.node), &raw mut value);
            check(status, || "read the node".to_owned())?;
            let stamp = self.stamp(&value);
            ua::UA_Variant_clear(&raw mut value);
            stamp
        }
    }

    fn stamp(&self, value: &ua::UA_Variant) -> Result<u64, Failure> {
        if !self.is_default {
            return Ok(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        // SAFETY: a scalar UInt64 has one u64 at `data`.
        unsafe {
            let uint64 = &raw const ua::UA_TYPES[ua::UA_TYPES_UINT64 as usize];
            if ua::UA_Variant_hasScalarType(value, uint64) {
                Ok(*value.data.cast::<u64>())
            } else {
                Err(Failure::run("the value is not a UInt64".to_owned()))
            }
        }
    }
}

/// What a row tells.
struct Row {
    reads: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
    /// Reads with a time: all but the one over midnight.
    timed: u64,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            reads: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
            timed: 0,
        }
    }
}

impl Row {
    fn add(&mut self, previous: u64, now: u64) -> Result<(), Failure> {
        self.reads += 1;
        if now > previous {
            let ns = now - previous;
            self.min_ns = self.min_ns.min(ns);
            self.max_ns = self.max_ns.max(ns);
            self.sum_ns += ns;
            self.timed += 1;
        } else if previous - now < HALF_A_DAY_NS {
            let text = format!("the value does not rise: {previous}, then {now}");
            return Err(Failure::run(text));
        }
        Ok(())
    }

    /// The row as C prints it: `%.2f\t%6.0fns\t%9ldns\t\t%9ldns`.
    fn line(&self, seconds: f64) -> String {
        let rate = as_f64(self.reads) / seconds;
        let average = as_f64(self.sum_ns) / as_f64(self.timed.max(1));
        let (min, max) = (self.min_ns.min(self.max_ns), self.max_ns);
        format!("{rate:.2}\t{average:6.0}ns\t{min:9}ns\t\t{max:9}ns")
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and nanoseconds below 2^53"
)]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[u64]) -> Row {
        let mut row = Row::default();
        for pair in values.windows(2) {
            assert!(row.add(pair[0], pair[1]).is_ok());
        }
        row
    }

    #[test]
    fn a_row_is_printed_as_upstream_prints_it() {
        assert_eq!(
            row(&[1_000, 36_738, 1_688_340, 1_728_340]).line(0.000_2),
            "15000.00\t575780ns\t    35738ns\t\t  1651602ns"
        );
    }

    #[test]
    fn midnight_counts_as_a_read_without_a_time() {
        let row = row(&[86_399_999_999_000, 500, 700]);
        assert_eq!((row.reads, row.timed), (2, 1));
        assert_eq!((row.min_ns, row.max_ns, row.sum_ns), (200, 200, 200));
    }

    #[test]
    fn a_value_that_does_not_rise_is_an_error() {
        for (previous, now) in [(5, 5), (6, 5)] {
            assert!(Row::default().add(previous, now).is_err());
        }
    }
}
