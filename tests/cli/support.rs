//! Runs the real binary in an empty folder, with a cleared environment and a fixed width.

use std::process::{Command, Stdio};

/// A folder of its own and the environment that a command sees.
pub struct Place {
    folder: tempfile::TempDir,
    env: Vec<(&'static str, String)>,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), env: Vec::new() }
    }

    pub fn env(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    pub fn file(self, name: &str, text: &str) -> Self {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Returns exit code, stdout and stderr in one text.
    pub fn forge(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forge"));
        command.args(arguments).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command.env("COLUMNS", "100").env("TZ", "UTC").envs(self.env.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let exit = output.status.code().map_or("signal".to_owned(), |code| code.to_string());
        format!("exit {exit}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
    }
}
