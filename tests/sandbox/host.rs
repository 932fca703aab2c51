//! A folder with an inventory of sandboxes, and the user who runs forge on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The user who runs forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Root,
    /// The user of this process, or `nobody` if that is root.
    User,
}

impl Who {
    /// Returns every user that this process can become.
    pub fn all() -> Vec<Self> {
        if is_root() { vec![Self::Root, Self::User] } else { vec![Self::User] }
    }
}

fn is_root() -> bool {
    text(&Command::new("id").arg("-u").output().unwrap().stdout).trim() == "0"
}

/// The folder, with a copy of forge that every user may run. Dropping it ends its sandboxes.
pub struct Lab {
    pub who: Who,
    folder: tempfile::TempDir,
}

impl Lab {
    /// Creates the folder and tries a sandbox in it.
    ///
    /// # Errors
    /// Sandboxes are not possible here: forge's error message.
    ///
    /// # Panics
    /// The inventory or a recipe is invalid: a mistake of the test, which would count as a skip.
    pub fn new(who: Who, files: &[(&str, &str)]) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("forge-lab").tempdir().unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_forge"), folder.path().join("forge")).unwrap();
        let lab = Self { who, folder };
        files.iter().for_each(|(name, text)| lab.file(name, text));
        let tried = lab.forge(&["sandbox", "enter", "a", "-i", "inventory.yaml", "--", "true"]);
        assert!(!tried.starts_with("exit 64\n") && !tried.starts_with("exit 65\n"), "{tried}");
        if tried.starts_with("exit 0\n") { Ok(lab) } else { Err(tried.lines().nth(1).unwrap_or_default().to_owned()) }
    }

    pub fn binary(&self) -> String {
        self.path("forge").to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self.hand_over();
    }

    /// Copies a folder of the repository.
    pub fn copy(&self, from: &str, to: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(from);
        let copied = Command::new("cp").arg("-rT").arg(from).arg(self.path(to)).status().unwrap();
        assert!(copied.success());
        let _ = std::fs::remove_dir_all(self.path(to).join(".forge"));
        self.hand_over();
    }

    /// Makes the user who runs forge the owner of the folder.
    fn hand_over(&self) {
        if self.who == Who::User && is_root() {
            assert!(
                Command::new("chown").args(["-R", "65534:65534"]).arg(self.folder.path()).status().unwrap().success()
            );
        }
    }

    /// Like [`Lab::forge`], as another user, who becomes the owner of the folder first.
    pub fn forge_as(&mut self, who: Who, arguments: &[&str]) -> String {
        let own = std::mem::replace(&mut self.who, who);
        self.hand_over();
        let said = self.forge(arguments);
        self.who = own;
        said
    }

    fn command(&self) -> Command {
        let mut command = match self.who {
            Who::User if is_root() => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(self.path("forge"));
                command
            }
            _ => Command::new(self.path("forge")),
        };
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        command
            .env_clear()
            .env("PATH", path)
            .env("TZ", "UTC")
            .env("COLUMNS", "100")
            .env("FORGE_STATE", self.path("state"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Starts forge with `-q` in the background.
    pub fn start(&self, arguments: &[&str]) -> StartedForge {
        let mut command = self.command();
        command.arg("-q").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        StartedForge(command.spawn().unwrap())
    }

    /// Returns the ids of the processes of this folder's forge whose arguments contain `part`.
    pub fn list_processes(&self, part: &str) -> Vec<u32> {
        let listed = Command::new("ps").args(["-eo", "pid,args"]).output().unwrap();
        let program = self.binary();
        let own = |line: &&str| line.split_whitespace().nth(1) == Some(&program) && line.contains(part);
        text(&listed.stdout)
            .lines()
            .filter(own)
            .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
            .collect()
    }

    /// Kills a process that this folder's forge started.
    pub fn kill(&self, process: u32) {
        Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    }

    /// Interrupts a process, as Ctrl-C does.
    pub fn interrupt(&self, process: u32) {
        assert!(Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap().success());
    }

    /// Runs forge with `-q`. Returns exit code, stdout and stderr.
    pub fn forge(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["-q"], arguments].concat());
        let exit = output.status.code().map_or("signal".to_owned(), |code| code.to_string());
        format!("exit {exit}\n{}{}", text(&output.stdout), text(&output.stderr))
    }

    /// Runs shell code in a sandbox and returns its stdout, whatever the exit code.
    pub fn inside(&self, inventory: &str, host: &str, code: &str) -> String {
        let output = self.run(&["sandbox", "enter", host, "-i", inventory, "--", "sh", "-c", code]);
        text(&output.stdout)
    }

    /// Runs a line of shell in the folder, with forge in `PATH`, and returns stdout followed by stderr.
    pub fn shell(&self, line: &str) -> String {
        let own = self.command();
        let mut shell = Command::new("setpriv");
        if self.who == Who::User && is_root() {
            shell.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        }
        shell.args(["--", "sh", "-c", line]);
        shell.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.folder.path().display());
        let output = shell.env("PATH", path).current_dir(self.folder.path()).stdin(Stdio::null()).output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    }

    /// Runs forge in a chroot whose root is a bind mount of this machine's root, and returns its output.
    pub fn inside_a_chroot(&self, arguments: &[&str]) -> String {
        const JAIL: &str = r#"mkdir -p jail && mount --rbind / jail && folder=$PWD && cd jail || exit 1
            exec chroot . sh -c 'cd "$1" && shift && exec "$@"' sh "$folder" "$@""#;
        let own = self.command();
        let mut jail = Command::new("unshare");
        jail.args(["--mount", "--propagation", "private", "sh", "-c", JAIL, "sh", "./forge"]).args(arguments);
        jail.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = jail.current_dir(self.folder.path()).stdin(Stdio::null()).output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    }

    /// Starts a line of shell in the folder, like [`shell`](Self::shell), on a terminal that closes when the returned
    /// process is killed.
    pub fn on_a_terminal(&self, line: &str) -> std::process::Child {
        let own = self.command();
        let mut script = Command::new("script");
        script.args(["-qec", line, "/dev/null"]).current_dir(self.folder.path());
        script
            .env_clear()
            .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Waits until a file exists and ends with a newline, and returns its content.
    pub fn comes(&self, name: &str) -> String {
        for _ in 0..600 {
            match std::fs::read_to_string(self.path(name)) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => std::thread::sleep(std::time::Duration::from_millis(100)),
            }
        }
        panic!("`{name}` was not written within 60 s");
    }

    /// Fails if a process of this machine still has this folder in its arguments.
    pub fn nothing_is_left(&self) {
        let folder = self.folder.path().to_str().unwrap();
        // A process that was just killed may take a moment to disappear.
        for turn in 0.. {
            let listed = Command::new("ps").args(["-eo", "pid,args"]).output().unwrap();
            let listed = text(&listed.stdout);
            let left: Vec<&str> =
                listed.lines().filter(|line| line.contains(folder) && line.contains("demo")).collect();
            if left.is_empty() {
                return;
            }
            assert!(turn < 50, "{left:?}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// forge in the background.
pub struct StartedForge(std::process::Child);

impl StartedForge {
    pub fn process_id(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end. Returns exit code, stdout and stderr.
    pub fn finish(self) -> String {
        let output = self.0.wait_with_output().unwrap();
        let exit = output.status.code().map_or("signal".to_owned(), |code| code.to_string());
        format!("exit {exit}\n{}{}", text(&output.stdout), text(&output.stderr))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.run(&["sandbox", "reset", "-i", "inventory.yaml"]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
