//! A host for the scripts of recipes: a file tree that replaces a host's paths, and programs in place of the host's.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tools that change nothing.
const TEXT_TOOLS: [&str; 12] = ["sh", "cat", "cut", "tr", "grep", "sed", "sort", "uniq", "head", "tail", "awk", "find"];

/// A host with that tree. A script that names one of the replaced paths reads and writes the tree.
pub struct ScriptHost {
    folder: tempfile::TempDir,
    /// The paths that the tree replaces, longest first where one contains the other.
    replaced: &'static [&'static str],
    /// Whether scripts find the machine's programs, or only `TEXT_TOOLS`.
    has_all_tools: bool,
}

/// The result of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptRun {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl ScriptHost {
    /// Builds a host whose scripts find the programs of this machine, behind those of the host.
    pub fn new(replaced: &'static [&'static str]) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), replaced, has_all_tools: true }
    }

    /// Builds a host on which programs do not exist, except for plain text tools and those that a test adds.
    pub fn with_text_tools() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap(), replaced: &[], has_all_tools: false };
        for tool in TEXT_TOOLS {
            let real =
                ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(tool)).find(|path| path.exists());
            host.link(&format!("bin/{tool}"), real.unwrap_or_else(|| panic!("no `{tool}`")));
        }
        host
    }

    /// Adds a program. `ROOT` in its text is the root of the tree.
    pub fn add_program(&self, name: &str, body: &str) {
        let path = self.path().join("bin").join(name);
        // A link to a tool of this machine would be written through.
        _ = std::fs::remove_file(&path);
        self.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{}\n", self.replace_paths(body)));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Adds a program whose calls are recorded, see [`Self::calls`].
    pub fn add_recorded_program(&self, name: &str, body: &str) {
        self.add_program(name, &format!("printf '%s\\n' \"{name} $*\" >>ROOT/calls.log\n{body}"));
    }

    /// Returns the calls of recorded programs, in order.
    pub fn calls(&self) -> Vec<String> {
        self.read("calls.log").lines().map(str::to_owned).collect()
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, with its folders.
    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Links a path of the tree to `target`, which is a path of the tree if it is relative.
    pub fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.path().join(target), path).unwrap();
    }

    pub fn remove(&self, path: &str) {
        std::fs::remove_file(self.path().join(path)).unwrap();
    }

    /// Returns the text of a file, empty if it does not exist.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path().join(path)).unwrap_or_default()
    }

    /// Runs a script like a step.
    pub fn run(&self, script: &str) -> ScriptRun {
        let programs = self.path().join("bin");
        let mut path = programs.display().to_string();
        if self.has_all_tools {
            path += ":/usr/sbin:/usr/bin:/sbin:/bin";
        }
        let mut command = Command::new("/bin/sh");
        command.env_clear().env("PATH", path).current_dir(self.path()).stdin(Stdio::null());
        let ran = command.arg("-c").arg(self.replace_paths(script)).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        ScriptRun { status: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) }
    }

    /// Returns the text with the paths of this tree in place of those of a host.
    fn replace_paths(&self, text: &str) -> String {
        let root = self.path().to_str().unwrap();
        let own_path = format!("PATH={root}/bin:/usr/sbin:");
        // A path behind `ROOT` is already one of the tree.
        let text = text.replace("PATH=/usr/sbin:", &own_path).replace("ROOT/", "@ROOT/");
        let text = self.replaced.iter().fold(text, |text, path| text.replace(path, &format!("@ROOT{path}")));
        text.replace("@ROOT@ROOT", root).replace("@ROOT", root)
    }
}
