//! The gate on a host: stops a script between two of its changes. It needs nothing of forge: a script's programs are
//! found in PATH, whose first folder belongs to the administrator.

use crate::support::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Programs that change a host.
const PROGRAMS: &str = "mv rm ln mkdir rmdir chmod chown cp sync install touch apt-get apt-mark dpkg useradd usermod \
                        groupadd groupmod groupdel userdel gpasswd systemctl systemd-run update-initramfs update-grub \
                        sysctl mount umount";
/// How long a run may take to reach the chosen call. A whole server reboots on the way.
const REACH_LIMIT: Duration = Duration::from_secs(600);

/// One call of a program that changes the host.
#[derive(Debug, Clone)]
pub struct Call {
    pub number: usize,
    pub program: String,
    folder: String,
    words: String,
}

impl Call {
    fn parse(line: &str) -> Option<Call> {
        let mut fields = line.splitn(4, '\t');
        let number = fields.next()?.parse().ok()?;
        let [program, folder, words] = [fields.next()?, fields.next()?, fields.next()?].map(str::to_owned);
        Some(Call { number, program, folder, words })
    }

    /// Whether it writes forge's own data below /var/lib/forge or /run, or only syncs.
    pub fn is_bookkeeping(&self) -> bool {
        let own = |text: &str| ["/var/lib/forge", "/run/forge", "/var/log/forge"].iter().any(|at| text.contains(at));
        self.program == "sync" || own(&self.words) || own(&self.folder)
    }

    /// Whether it renames a candidate into place from a folder of its own, which is removed afterwards.
    pub fn leaves_a_folder(&self) -> bool {
        self.program == "mv" && self.folder.contains(".forge-2") && !self.is_bookkeeping()
    }

    /// Whether it installs packages.
    pub fn installs_packages(&self) -> bool {
        self.program == "apt-get" && self.words.contains(" install ")
    }

    /// Whether it renames records of steps into place.
    pub fn places_records(&self) -> bool {
        self.program == "mv" && self.words.ends_with("/var/lib/forge/applied")
    }

    /// Whether it keeps the state before the first change of a script.
    pub fn keeps_former_state(&self) -> bool {
        self.words.contains("/var/lib/forge/undo/")
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: String = self.words.chars().take(100).collect();
        write!(f, "{} `{} {words}` in {}", self.number, self.program, self.folder)
    }
}

/// Files that are renamed into place, with the digests of their contents.
pub type Placed = BTreeMap<String, BTreeSet<String>>;

/// Where a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stop {
    pub call: usize,
    /// Whether the call itself is executed first.
    pub after: bool,
}

pub struct Gate<'a> {
    node: &'a Node,
    files: PathBuf,
}

impl<'a> Gate<'a> {
    /// Installs the gate before every program that the node has; it does not count yet.
    pub fn install(node: &'a Node) -> Gate<'a> {
        node.must("mkdir -p /srv/gate && echo 0 >/srv/gate/count");
        node.write("/srv/gate/gate", include_str!("gate"));
        node.must(&format!(
            "chmod 755 /srv/gate/gate; for program in {PROGRAMS}; do
               if [ -x /usr/bin/$program ] || [ -x /usr/sbin/$program ]; then
                 [ -e /usr/local/bin/$program ] || [ -e /usr/local/sbin/$program ] || ln -s /srv/gate/gate /usr/local/sbin/$program
               fi
             done"
        ));
        Gate { node, files: node.disk().join("srv/gate") }
    }

    /// Counts from now on, and stops at `stop`.
    pub fn arm(&self, stop: Option<Stop>) {
        self.disarm();
        if let Some(stop) = stop {
            let when = if stop.after { "after" } else { "before" };
            self.write("stop", &format!("{} {when}\n", stop.call));
        }
        self.write("count", "0\n");
        self.write("on", "");
    }

    /// Also notes every file that is renamed into place.
    pub fn learn(&self) {
        self.write("learn", "");
    }

    /// Stops counting, and resets the count.
    pub fn disarm(&self) {
        for name in ["on", "learn", "stop", "reached", "go", "calls", "placed"] {
            let _ = fs_err::remove_file(self.files.join(name));
        }
    }

    /// Waits until a call has stopped; returns its session id, or `None` if `ended` is true first.
    pub fn await_stop(&self, mut ended: impl FnMut() -> bool) -> Option<String> {
        let end = Instant::now() + REACH_LIMIT;
        loop {
            if let Some(session) = self.read("reached") {
                return Some(session.trim().to_owned());
            }
            if ended() {
                return None;
            }
            assert!(Instant::now() < end, "{}: the chosen call was not reached in time", self.node.name);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets the stopped call go on, and waits until it does.
    pub fn go(&self) {
        self.write("go", "");
        let end = Instant::now() + Duration::from_secs(5);
        while self.files.join("reached").exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the calls since [`Gate::arm`].
    pub fn calls(&self) -> Vec<Call> {
        self.read("calls").unwrap_or_default().lines().filter_map(Call::parse).collect()
    }

    /// Returns the files that were renamed into place, relative to the root, with the digests of their contents.
    pub fn placed(&self) -> Placed {
        let mut placed = Placed::new();
        for line in self.read("placed").unwrap_or_default().lines() {
            if let (Some((digest, _)), Some((_, path))) = (line.split_once(' '), line.split_once("\t/")) {
                placed.entry(path.to_owned()).or_default().insert(digest.to_owned());
            }
        }
        placed
    }

    fn read(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.files.join(name)).ok()
    }

    fn write(&self, name: &str, text: &str) {
        fs_err::write(self.files.join(name), text).expect("the node's disk is writable");
    }
}
