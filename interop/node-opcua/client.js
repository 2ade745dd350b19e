// node-opcua as a client of opcua-perf: client.js URL [READS] [NODE-ID]
// [--user NAME:PASSWORD] [--pki FOLDER] [--mode none|sign|sign-and-encrypt].
//
// Reads one node READS times (1000), one after the other. The default node,
// ns=1;i=42, must be a UInt64 that rises from read to read. A read that fails or a
// wrong value ends it with exit code 1. The last line on stderr tells reads per second.
"use strict";

const { opcua, DEFAULT_NODE, parseCommandLine, identity, runMain } = require("./common.js");

const HALF_A_DAY_NS = 43_200_000_000_000n;

const { MessageSecurityMode } = opcua;
const MODES = {
    none: MessageSecurityMode.None,
    sign: MessageSecurityMode.Sign,
    "sign-and-encrypt": MessageSecurityMode.SignAndEncrypt,
};

// The value of the default node, which has to be a UInt64.
function uint64(dataValue) {
    const { dataType, value } = dataValue.value;
    if (dataType !== opcua.DataType.UInt64) {
        throw new Error(`the value is a ${opcua.DataType[dataType]}, not a UInt64`);
    }
    return (BigInt(value[0]) << 32n) | BigInt(value[1]);
}

async function readLoop(session, nodeId, reads) {
    let previous = -1n;
    const start = process.hrtime.bigint();
    for (let done = 0; done < reads; done++) {
        const dataValue = await session.read({ nodeId, attributeId: opcua.AttributeIds.Value });
        if (!dataValue.statusCode.isGood()) {
            throw new Error(`cannot read ${nodeId}: ${dataValue.statusCode.name}`);
        }
        if (nodeId !== DEFAULT_NODE) {
            continue;
        }
        const now = uint64(dataValue);
        if (now <= previous && previous < now + HALF_A_DAY_NS) {
            throw new Error(`the value does not rise: ${previous}, then ${now}`);
        }
        previous = now;
    }
    return Number(process.hrtime.bigint() - start) / 1e9;
}

runMain("client.js", async () => {
    const { positionals, user, pki, mode } = parseCommandLine();
    const [url, count = "1000", nodeId = DEFAULT_NODE] = positionals;
    const reads = Number(count);
    if (!url || !(reads > 0) || !(mode in MODES)) {
        throw new Error("usage: client.js URL [READS] [NODE-ID] [--mode none|sign|sign-and-encrypt]");
    }
    const client = opcua.OPCUAClient.create({
        ...(await identity(pki, "client", "clientCertificateManager")),
        applicationUri: "urn:interop:client",
        endpointMustExist: false,
        securityMode: MODES[mode],
        securityPolicy: mode === "none" ? opcua.SecurityPolicy.None : opcua.SecurityPolicy.Basic256Sha256,
        connectionStrategy: { maxRetry: 0 },
        keepSessionAlive: false,
    });
    await client.connect(url);
    const session = await client.createSession(
        user ? { type: opcua.UserTokenType.UserName, userName: user.name, password: user.password } : undefined,
    );
    const seconds = await readLoop(session, nodeId, reads);
    await session.close();
    await client.disconnect();
    console.error(`${reads} reads in ${seconds.toFixed(3)} s: ${(reads / seconds).toFixed(0)} reads/s`);
});
