//! Keeps `docs/report.schema.json` what the types say.
#![cfg(feature = "schema")]

use std::path::Path;

/// Set to write the file instead of comparing it.
const UPDATE: &str = "UPDATE_SCHEMA";

#[test]
fn the_schema_in_docs_is_that_of_the_types() {
    // What is written, not what would be read: a key that is left out when it
    // is undefined is not required.
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<perf_core::report::Report>();
    let mut text = serde_json::to_string_pretty(&schema).unwrap();
    text.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == text,
        "docs/report.schema.json is old; run the test with {UPDATE}=1"
    );
}
