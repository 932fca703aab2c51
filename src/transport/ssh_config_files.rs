//! Whether the files of ssh's configuration mention an option. If none does, its value is ssh's own, and a process that
//! asks for it is saved for every host.

use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The system's file, which ssh ignores if another one is named.
const SYSTEM_CONFIG: &str = "/etc/ssh/ssh_config";
/// Depth of nested `Include` lines that ssh accepts.
const MAX_DEPTH: usize = 16;

/// Answers by named file. A run connects to many hosts with the same files.
static ANSWERS: Mutex<BTreeMap<Option<Utf8PathBuf>, bool>> = Mutex::new(BTreeMap::new());

/// Reports whether a file that ssh reads mentions one of `options` (in lower case): those of the user and of the system,
/// or only `config`. A file that cannot be read or understood counts as one that does.
pub(super) fn may_set_options(config: Option<&Utf8Path>, options: &[&str]) -> bool {
    let key = config.map(Utf8Path::to_owned);
    let known = ANSWERS.lock().ok().and_then(|answers| answers.get(&key).copied());
    known.unwrap_or_else(|| {
        let answer = search_files(config, options);
        if let Ok(mut answers) = ANSWERS.lock() {
            answers.insert(key, answer);
        }
        answer
    })
}

fn search_files(config: Option<&Utf8Path>, options: &[&str]) -> bool {
    // The paths are those of OpenSSH as Linux distributions build it.
    let Some(home) = find_home().filter(|_| cfg!(target_os = "linux")) else { return true };
    let own = ConfigFolder { home: &home, relative: home.join(".ssh"), options };
    match config {
        Some(file) => own.mentions(file, 0),
        None => {
            let system = ConfigFolder { relative: "/etc/ssh".into(), ..own };
            own.mentions(&own.relative.join("config"), 0) || system.mentions(SYSTEM_CONFIG.into(), 0)
        }
    }
}

/// Returns the account's home directory. ssh takes it from the account too, and ignores `$HOME`.
fn find_home() -> Option<Utf8PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let accounts = fs_err::read_to_string("/etc/passwd").ok()?;
    let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let own = fields.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()))?;
    own.get(5).map(|home| Utf8PathBuf::from(*home))
}

/// Where `Include` lines of a file lead.
struct ConfigFolder<'a> {
    home: &'a Utf8Path,
    /// The folder of relative paths.
    relative: Utf8PathBuf,
    options: &'a [&'a str],
}

impl ConfigFolder<'_> {
    fn mentions(&self, file: &Utf8Path, depth: usize) -> bool {
        let text = match fs_err::read(file) {
            Ok(text) => text,
            Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
        };
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::trim).filter(|line| !line.starts_with('#')).any(|line| {
            let lower = line.to_ascii_lowercase();
            self.options.iter().any(|option| lower.contains(option))
                || lower.contains("include") && self.includes_mention(line, depth)
        })
    }

    /// Reports whether a file that the `Include` line names mentions an option. Of a pattern, every file of the folder
    /// counts.
    fn includes_mention(&self, line: &str, depth: usize) -> bool {
        let (word, patterns) = line.split_at_checked("include".len()).unwrap_or((line, ""));
        let unclear = |c: char| "\"'\\%$=".contains(c);
        let is_include = word.eq_ignore_ascii_case("include") && patterns.starts_with(char::is_whitespace);
        if !is_include || patterns.contains(unclear) || depth >= MAX_DEPTH {
            return true;
        }
        patterns.split_whitespace().any(|pattern| {
            let path = match pattern.strip_prefix("~/") {
                Some(rest) => self.home.join(rest),
                None => self.relative.join(pattern),
            };
            let is_pattern = |text: &str| text.contains(['*', '?', '[', '~']);
            match (path.parent(), path.file_name()) {
                (Some(folder), Some(name)) if !is_pattern(folder.as_str()) && is_pattern(name) => {
                    self.folder_mentions(folder, depth + 1)
                }
                (Some(folder), Some(name)) if !is_pattern(folder.as_str()) && !is_pattern(name) => {
                    self.mentions(&path, depth + 1)
                }
                _ => true,
            }
        })
    }

    fn folder_mentions(&self, folder: &Utf8Path, depth: usize) -> bool {
        match folder.read_dir_utf8() {
            Ok(mut entries) => entries.any(|entry| match entry {
                Ok(entry) => entry.path().is_file() && self.mentions(entry.path(), depth),
                Err(_) => true,
            }),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [&str; 2] = ["connecttimeout", "serveraliveinterval"];

    /// Writes the files into a fresh home directory and searches `config` there.
    fn search_home(files: &[(&str, &str)]) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(folder.path()).unwrap();
        for (name, text) in files {
            let path = home.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text.replace("HOME", home.as_str())).unwrap();
        }
        let own = ConfigFolder { home, relative: home.join(".ssh"), options: &OPTIONS };
        own.mentions(&home.join(".ssh/config"), 0)
    }

    #[test]
    fn option_is_found_however_it_is_written() {
        for line in
            ["ConnectTimeout 5", "  connecttimeout=5", "\"ServerAliveInterval\" 3", "Host x\n\tServerALIVEInterval 9"]
        {
            assert!(search_home(&[(".ssh/config", line)]), "{line}");
        }
        for line in ["", "# ConnectTimeout 5", "Host x\n  User root\n  Port 22"] {
            assert!(!search_home(&[(".ssh/config", line)]), "{line}");
        }
        assert!(!search_home(&[]), "a missing file sets nothing");
    }

    #[test]
    fn included_files_are_searched_too() {
        let set = "ConnectTimeout 5";
        for include in
            ["Include conf.d/*", "include ~/.ssh/conf.d/a", "Include HOME/.ssh/conf.d/a b", "Include none conf.d/a"]
        {
            let config = format!("{include}\n");
            assert!(search_home(&[(".ssh/config", &config), (".ssh/conf.d/a", set)]), "{include}");
            assert!(!search_home(&[(".ssh/config", &config), (".ssh/conf.d/a", "User root")]), "{include}");
        }
    }

    #[test]
    fn include_that_is_not_understood_may_set_everything() {
        for include in [
            "Include \"a b\"",
            "Include %d/x",
            "Include */x",
            "Include ${HOME}/x",
            "IncludeX a",
            "Include ~other/x",
            "Include=x",
        ] {
            assert!(search_home(&[(".ssh/config", include)]), "{include}");
        }
        assert!(search_home(&[(".ssh/config", "Include config")]), "a loop ends");
    }
}
