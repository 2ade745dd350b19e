// What both ends share: the module from the cache, the node, the command line.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { createRequire } = require("node:module");
const { parseArgs } = require("node:util");

// interop/install puts node-opcua into the cache, outside the clone.
const cache = process.env.PERF_CACHE || path.join(os.homedir(), ".cache", "zmq-perf");
const opcua = createRequire(path.join(path.resolve(cache), "node-opcua", "package.json"))("node-opcua");

const DEFAULT_NODE = "ns=1;i=42";

// The command line: operands, --user as {name, password}, --pki, --mode.
function parseCommandLine() {
    const { values, positionals } = parseArgs({
        allowPositionals: true,
        options: {
            user: { type: "string" },
            pki: { type: "string" },
            mode: { type: "string", default: "none" },
        },
    });
    const [name, ...rest] = (values.user ?? "").split(":");
    const user = values.user === undefined ? undefined : { name, password: rest.join(":") };
    return { positionals, user, pki: values.pki, mode: values.mode };
}

// The options that make an end use the certificate NAME in the folder PKI, or one of
// its own when there is no folder, and trust any peer. `managerOption` is the option
// that takes the certificate manager, whose folder is gone with the process.
async function identity(pki, name, managerOption) {
    const rootFolder = fs.mkdtempSync(path.join(os.tmpdir(), "node-opcua-"));
    process.on("exit", () => fs.rmSync(rootFolder, { recursive: true, force: true }));
    const manager = new opcua.OPCUACertificateManager({
        rootFolder,
        automaticallyAcceptUnknownCertificate: true,
        disableFileWatchers: true,
    });
    const files = pki && {
        certificateFile: path.join(pki, `${name}.cert.pem`),
        privateKeyFile: path.join(pki, `${name}.key.pem`),
    };
    if (files) {
        // Else the manager makes a key of its own, which takes up to seconds.
        fs.mkdirSync(path.dirname(manager.privateKey), { recursive: true });
        fs.copyFileSync(files.privateKeyFile, manager.privateKey);
    }
    await manager.initialize();
    return { [managerOption]: manager, ...files };
}

// Runs a program: what it throws is one line on stderr and exit code 1; signals that
// ask it to stop end it with exit code 0.
function runMain(program, run) {
    for (const signal of ["SIGINT", "SIGTERM"]) {
        process.once(signal, () => process.exit(0));
    }
    run().catch((error) => {
        console.error(`${program}: ${error.message.trim().replace(/\s+/g, " ")}`);
        process.exit(1);
    });
}

module.exports = { opcua, DEFAULT_NODE, parseCommandLine, identity, runMain };
