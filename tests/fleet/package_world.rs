//! Package worlds on nodes: repositories with the names, versions and relations of real ones (`worlds/`).

use crate::support::{Node, Output};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Unpacks the world `name` (see `worlds/build`) into a folder of a node. Each world is built once per run.
pub fn unpack_world(node: &Node, name: &str, folder: &str) {
    static BUILT: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let archive = BUILT.lock().unwrap().entry(name.to_owned()).or_insert_with(|| build(name)).clone();
    node.write("/root/world.tar", archive);
    node.must(&format!("mkdir -p {folder} && tar -C {folder} -xf /root/world.tar && rm /root/world.tar"));
}

/// Returns an archive of the world.
fn build(name: &str) -> Vec<u8> {
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("world-{name}-{}", std::process::id()));
    fs_err::create_dir_all(&into).expect("a folder");
    let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/worlds/build");
    let out = Output::of(Command::new(script).arg(name).arg(&into), b"");
    assert!(out.ok(), "{out}");
    let archive = into.with_extension("tar");
    let out = Output::of(Command::new("tar").arg("-C").arg(&into).arg("-cf").arg(&archive).arg("."), b"");
    assert!(out.ok(), "{out}");
    let bytes = fs_err::read(&archive).expect("an archive");
    fs_err::remove_dir_all(&into).expect("removed");
    fs_err::remove_file(&archive).expect("removed");
    bytes
}
