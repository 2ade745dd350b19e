// node-opcua as a server for opcua-perf: server.js [PORT] [--user NAME:PASSWORD] [--pki FOLDER].
//
// Offers ns=1;i=42, browse name current-time-nanoseconds, under Objects: a read-only
// UInt64 with the nanoseconds of the day, made at each read. Security None always;
// with --pki (see certificates.py) also Basic256Sha256, signed, and signed and
// encrypted. With --user anonymous logins are refused. Prints "listening on URL"
// once it accepts connections (port 0, the default: a free one).
"use strict";

const net = require("node:net");
const { opcua, DEFAULT_NODE, parseCommandLine, identity, runMain } = require("./common.js");

const DAY_NS = 86_400_000_000_000n;
// The wall clock of the start and the monotonic clock since: falls at midnight only.
const START = BigInt(Date.now()) * 1_000_000n - process.hrtime.bigint();

// node-opcua has a UInt64 as two 32-bit halves.
function nanosecondsOfDay() {
    const now = (START + process.hrtime.bigint()) % DAY_NS;
    return [Number(now >> 32n), Number(now & 0xffffffffn)];
}

// node-opcua reads port 0 as "no port given".
function freePort() {
    return new Promise((resolve, reject) => {
        const probe = net.createServer();
        probe.once("error", reject);
        probe.listen(0, "127.0.0.1", () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
}

function addTimeOfDay(server) {
    const addressSpace = server.engine.addressSpace;
    const dataType = opcua.DataType.UInt64;
    const arrayType = opcua.VariantArrayType.Scalar;
    addressSpace.getOwnNamespace().addVariable({
        organizedBy: addressSpace.rootFolder.objects,
        nodeId: DEFAULT_NODE,
        browseName: "current-time-nanoseconds",
        dataType,
        accessLevel: "CurrentRead",
        userAccessLevel: "CurrentRead",
        minimumSamplingInterval: 0,
        value: {
            get: () => new opcua.Variant({ dataType, arrayType, value: nanosecondsOfDay() }),
        },
    });
}

runMain("server.js", async () => {
    const { positionals, user, pki } = parseCommandLine();
    const port = Number(positionals[0] ?? 0) || (await freePort());
    if (user && !pki) {
        throw new Error("--user needs --pki: node-opcua takes no password that is not encrypted");
    }
    const { MessageSecurityMode, SecurityPolicy } = opcua;
    const server = new opcua.OPCUAServer({
        ...(await identity(pki, "server", "serverCertificateManager")),
        port,
        hostname: "127.0.0.1",
        serverInfo: { applicationUri: "urn:interop:server" },
        securityModes: pki
            ? [MessageSecurityMode.None, MessageSecurityMode.Sign, MessageSecurityMode.SignAndEncrypt]
            : [MessageSecurityMode.None],
        securityPolicies: pki ? [SecurityPolicy.None, SecurityPolicy.Basic256Sha256] : [SecurityPolicy.None],
        allowAnonymous: !user,
        userManager: { isValidUser: (name, password) => name === user?.name && password === user?.password },
    });
    await server.initialize();
    addTimeOfDay(server);
    await server.start();
    console.log(`listening on opc.tcp://127.0.0.1:${port}`);
});
