//! Only a name for cargo to resolve: `build-libzmq` asks `cargo metadata` where
//! the crate `zeromq-src` lies and builds libzmq's own tools from its `vendor/`.
