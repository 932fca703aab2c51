//! Values that the files of ssh's configuration set for every host. For those, no process has to ask ssh for each host.

use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The system's file, which ssh ignores if another one is named.
const SYSTEM_CONFIG: &str = "/etc/ssh/ssh_config";
/// Depth of nested `Include` lines that ssh accepts.
const MAX_DEPTH: usize = 16;

/// The values of options, in their order; `None` if unset.
pub(super) type OptionValues = Vec<Option<u64>>;

/// A file that cannot be read or understood, or that may set an option for some hosts only.
struct DependsOnHost;

/// Answers by named file. A run connects to many hosts with the same files.
static ANSWERS: Mutex<BTreeMap<Option<Utf8PathBuf>, Option<OptionValues>>> = Mutex::new(BTreeMap::new());

/// Returns the values of `options` (in lower case, each a number) that apply to every host. They are read from the files
/// that ssh reads: those of the user and of the system, or only `config`. Returns `None` if only ssh can tell: a value
/// may differ between hosts, or a file cannot be read or understood.
pub(super) fn read_for_all_hosts(config: Option<&Utf8Path>, options: &[&str]) -> Option<OptionValues> {
    let key = config.map(Utf8Path::to_owned);
    let known = ANSWERS.lock().ok().and_then(|answers| answers.get(&key).cloned());
    known.unwrap_or_else(|| {
        let answer = search_files(config, options);
        if let Ok(mut answers) = ANSWERS.lock() {
            answers.insert(key, answer.clone());
        }
        answer
    })
}

fn search_files(config: Option<&Utf8Path>, options: &[&str]) -> Option<OptionValues> {
    // The paths are those of OpenSSH as Linux distributions build it.
    let home = find_home().filter(|_| cfg!(target_os = "linux"))?;
    let own = ConfigFolder { home: &home, relative: home.join(".ssh"), options };
    let system = ConfigFolder { relative: "/etc/ssh".into(), ..own };
    let own_file = own.relative.join("config");
    let files = match config {
        Some(file) => vec![(&own, file)],
        None => vec![(&own, own_file.as_path()), (&system, SYSTEM_CONFIG.into())],
    };
    let mut values = vec![None; options.len()];
    files.into_iter().try_for_each(|(folder, file)| folder.read_file(file, true, 0, &mut values)).ok()?;
    Some(values)
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
    /// Adds the values that the file sets and that no earlier line has set. `for_all`: whether the file counts for every
    /// host.
    fn read_file(
        &self,
        file: &Utf8Path,
        mut for_all: bool,
        depth: usize,
        values: &mut OptionValues,
    ) -> Result<(), DependsOnHost> {
        let text = match fs_err::read(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(_) => return Err(DependsOnHost),
        };
        let outer = for_all;
        for line in String::from_utf8_lossy(&text).lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let lower = line.to_ascii_lowercase();
            let words: Vec<&str> = lower.split_whitespace().collect();
            if let Some(place) = self.options.iter().position(|option| lower.contains(option)) {
                let number = match words[..] {
                    [word, number] if for_all && word == self.options[place] => number.parse().ok(),
                    _ => None,
                };
                values[place] = Some(values[place].or(number).filter(|_| number.is_some()).ok_or(DependsOnHost)?);
            } else if lower.contains("include") {
                self.read_included(line, for_all, depth, values)?;
            } else if is_section_start(&lower) {
                for_all = outer && words == ["host", "*"];
            }
        }
        Ok(())
    }

    /// Reads the files that an `Include` line names. Of a pattern, every file of the folder counts.
    fn read_included(
        &self,
        line: &str,
        for_all: bool,
        depth: usize,
        values: &mut OptionValues,
    ) -> Result<(), DependsOnHost> {
        let (word, patterns) = line.split_at_checked("include".len()).unwrap_or((line, ""));
        let unclear = |c: char| "\"'\\%$=#".contains(c);
        let is_include = word.eq_ignore_ascii_case("include") && patterns.starts_with(char::is_whitespace);
        if !is_include || patterns.contains(unclear) || depth >= MAX_DEPTH {
            return Err(DependsOnHost);
        }
        for pattern in patterns.split_whitespace() {
            let path = match pattern.strip_prefix("~/") {
                Some(rest) => self.home.join(rest),
                None => self.relative.join(pattern),
            };
            let is_pattern = |text: &str| text.contains(['*', '?', '[', '~']);
            match (path.parent(), path.file_name()) {
                (Some(folder), Some(name)) if !is_pattern(folder.as_str()) && is_pattern(name) => {
                    self.read_folder(folder, depth + 1, values)?;
                }
                (Some(folder), Some(name)) if !is_pattern(folder.as_str()) && !is_pattern(name) => {
                    self.read_file(&path, for_all, depth + 1, values)?;
                }
                _ => return Err(DependsOnHost),
            }
        }
        Ok(())
    }

    /// Reads the files of a folder, which a pattern may leave out: values in them count for some hosts only.
    fn read_folder(&self, folder: &Utf8Path, depth: usize, values: &mut OptionValues) -> Result<(), DependsOnHost> {
        match folder.read_dir_utf8() {
            Ok(mut entries) => entries.try_for_each(|entry| {
                let entry = entry.map_err(|_| DependsOnHost)?;
                if entry.path().is_file() { self.read_file(entry.path(), false, depth, values) } else { Ok(()) }
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(_) => Err(DependsOnHost),
        }
    }
}

/// Reports whether a line (in lower case) begins the lines for some hosts.
fn is_section_start(lower: &str) -> bool {
    let keyword = lower.trim_start_matches('"').split(|c: char| c.is_whitespace() || "=\"".contains(c)).next();
    matches!(keyword, Some("host" | "match"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [&str; 2] = ["connecttimeout", "serveraliveinterval"];

    /// Writes the files into a fresh home directory and reads `config` there.
    fn read_home(files: &[(&str, &str)]) -> Option<OptionValues> {
        let folder = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(folder.path()).unwrap();
        for (name, text) in files {
            let path = home.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text.replace("HOME", home.as_str())).unwrap();
        }
        let own = ConfigFolder { home, relative: home.join(".ssh"), options: &OPTIONS };
        let mut values = vec![None; OPTIONS.len()];
        own.read_file(&home.join(".ssh/config"), true, 0, &mut values).ok().map(|()| values)
    }

    fn read_config(text: &str) -> Option<OptionValues> {
        read_home(&[(".ssh/config", text)])
    }

    #[test]
    fn values_for_every_host_are_read() {
        let unset = || Some(vec![None, None]);
        for text in ["", "# ConnectTimeout 5", "Host x\n  User root\n  Port 22", "Match user me\n  Port 22"] {
            assert_eq!(read_config(text), unset(), "{text}");
        }
        assert_eq!(read_home(&[]), unset(), "a missing file sets nothing");
        assert_eq!(read_config("ConnectTimeout 5"), Some(vec![Some(5), None]));
        let after_hosts = "Host a\n  HostName 10.0.0.1\nMatch user me\n  Port 7\nHost *\n\tServerALIVEInterval 9\n";
        assert_eq!(read_config(after_hosts), Some(vec![None, Some(9)]));
        assert_eq!(
            read_config("ConnectTimeout 5\nHost *\n  ConnectTimeout 7\n"),
            Some(vec![Some(5), None]),
            "ssh uses the first value"
        );
    }

    #[test]
    fn values_for_some_hosts_are_left_to_ssh() {
        for text in [
            "Host x\n\tServerALIVEInterval 9",
            "Host * !x\n  ConnectTimeout 5",
            "host=x\nConnectTimeout 5",
            "\"Host\" x\nConnectTimeout 5",
            "Match all\n  ConnectTimeout 5",
            "ConnectTimeout 5\nHost x\n  ConnectTimeout 7",
        ] {
            assert_eq!(read_config(text), None, "{text}");
        }
        for text in ["connecttimeout=5", "\"ServerAliveInterval\" 3", "ConnectTimeout none", "ConnectTimeout 1m"] {
            assert_eq!(read_config(text), None, "not a plain number: {text}");
        }
    }

    #[test]
    fn included_files_are_read_too() {
        let set = "ConnectTimeout 5";
        for include in ["include ~/.ssh/conf.d/a", "Include HOME/.ssh/conf.d/a b", "Include none conf.d/a"] {
            let config = format!("{include}\n");
            assert_eq!(read_home(&[(".ssh/config", &config), (".ssh/conf.d/a", set)]), Some(vec![Some(5), None]));
            let config = format!("Host x\n  {include}\n");
            assert_eq!(read_home(&[(".ssh/config", &config), (".ssh/conf.d/a", set)]), None, "{include} for one host");
            let other = (".ssh/conf.d/a", "Host x\n  User root");
            assert_eq!(
                read_home(&[(".ssh/config", &format!("{config}Host *\n{set}")), other]),
                Some(vec![Some(5), None]),
                "the section of an included file ends with it"
            );
        }
        let pattern = "Include conf.d/*\n";
        assert_eq!(read_home(&[(".ssh/config", pattern), (".ssh/conf.d/a", set)]), None, "of a pattern");
        assert_eq!(read_home(&[(".ssh/config", pattern), (".ssh/conf.d/a", "User me")]), Some(vec![None, None]));
    }

    #[test]
    fn include_that_is_not_understood_is_left_to_ssh() {
        for include in [
            "Include \"a b\"",
            "Include %d/x",
            "Include */x",
            "Include ${HOME}/x",
            "IncludeX a",
            "Include ~other/x",
            "Include=x",
            "Include a # b",
        ] {
            assert_eq!(read_config(include), None, "{include}");
        }
        assert_eq!(read_config("Include config"), None, "a loop ends");
    }
}
