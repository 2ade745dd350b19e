//! Hands the target triple, which cargo only tells build scripts, to the crate.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=PERF_TARGET={target}");
    println!("cargo:rerun-if-changed=build.rs");
}
