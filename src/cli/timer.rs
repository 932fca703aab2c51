//! `--install-timer`: a systemd service and timer on this machine that look for drift by themselves.

use super::error::CliError;
use super::file;
use super::run::Cx;
use camino::{Utf8Path, Utf8PathBuf};
use std::io::{self, Write};
use std::time::Duration;

/// Where the units of the machine lie.
const SYSTEM: &str = "/etc/systemd/system";

/// When the timer goes off, and where its units are written.
#[derive(Clone, Debug, clap::Args)]
pub struct TimerArgs {
    /// Write a systemd service and timer on this machine that run this command by themselves, and say how to undo it
    #[arg(long, conflicts_with_all = ["history", "observed"])]
    pub install_timer: bool,
    /// With --install-timer: how often it runs
    #[arg(long, value_name = "DURATION", default_value = "15m", requires = "install_timer", value_parser = super::duration::parse)]
    pub every: Duration,
    /// With --install-timer: where the units are written; /etc/systemd/system for root, else ~/.config/systemd/user
    #[arg(long, value_name = "DIR", requires = "install_timer")]
    pub unit_dir: Option<Utf8PathBuf>,
}

/// The units, as text.
pub struct Units {
    /// Their name, without an ending.
    pub name: String,
    pub service: String,
    pub timer: String,
}

/// What the units are made from.
pub struct Wanted<'w> {
    pub cluster: &'w str,
    /// The program and its arguments, each as one word.
    pub command: &'w [String],
    pub every: Duration,
}

/// Returns the units for `wanted`.
pub fn units(wanted: &Wanted<'_>) -> Units {
    let name = format!("forge-drift-{}", wanted.cluster);
    let command: Vec<String> = wanted.command.iter().map(|word| quoted(word)).collect();
    let every = wanted.every.as_secs().max(1);
    // The hosts of many clusters are not looked at in the same second.
    let spread = (every / 5).max(1);
    let service = format!(
        "[Unit]
Description=forge looks for drift in {cluster}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart={command}
# 2: drift was found, which the report tells. Anything else but 0 makes the unit fail: `systemctl --failed` shows it.
SuccessExitStatus=2
# A run that hangs ends before the next is due; a service that runs is not started a second time.
TimeoutStartSec={every}
Nice=10
",
        cluster = wanted.cluster,
        command = command.join(" "),
    );
    let timer = format!(
        "[Unit]
Description=forge looks for drift in {cluster} every {every} seconds

[Timer]
OnBootSec={spread}
OnUnitInactiveSec={every}
RandomizedDelaySec={spread}

[Install]
WantedBy=timers.target
",
        cluster = wanted.cluster,
    );
    Units { name, service, timer }
}

/// Quotes a word for `ExecStart`: systemd expands `%` and `$` and ends words at blanks.
fn quoted(word: &str) -> String {
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '%' => out.push_str("%%"),
            '$' => out.push_str("$$"),
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes the units, and says on `out` what to do with them and how to undo it.
///
/// # Errors
/// There is no place for them, or it cannot be written.
pub fn install<B>(cx: &Cx<'_, B>, args: &TimerArgs, cluster: &str, command: &[String]) -> Result<String, CliError> {
    let is_root = rustix::process::geteuid().is_root();
    let folder = folder(args, is_root, cx.environment.home.as_deref())?;
    let units = units(&Wanted { cluster, command, every: args.every });
    fs_err::create_dir_all(&folder).map_err(|error| CliError::unexpected(error.to_string()))?;
    for (ending, text) in [("service", &units.service), ("timer", &units.timer)] {
        file::replace(&folder.join(format!("{}.{ending}", units.name)), |out| out.write_all(text.as_bytes()))?;
    }
    Ok(said(&units.name, &folder, is_root))
}

fn folder(args: &TimerArgs, is_root: bool, home: Option<&Utf8Path>) -> Result<Utf8PathBuf, CliError> {
    match (&args.unit_dir, is_root, home) {
        (Some(folder), ..) => Ok(folder.clone()),
        (None, true, _) => Ok(SYSTEM.into()),
        (None, false, Some(home)) => Ok(home.join(".config/systemd/user")),
        (None, false, None) => Err(CliError::usage("`$HOME` is not set, so that there is no place for your units")
            .hint("name one with `--unit-dir`")),
    }
}

fn said(name: &str, folder: &Utf8Path, is_root: bool) -> String {
    let systemctl = if is_root { "systemctl" } else { "systemctl --user" };
    let linger = if is_root {
        ""
    } else {
        "  loginctl enable-linger                                  (so that it runs while you are away)\n"
    };
    format!(
        "written: {folder}/{name}.service
written: {folder}/{name}.timer

to start it:
  {systemctl} daemon-reload && {systemctl} enable --now {name}.timer
{linger}to see it:
  {systemctl} list-timers {name}.timer
  journalctl {user}-u {name}                     (what it found; a run that failed is in `{systemctl} --failed`)
to undo it:
  {systemctl} disable --now {name}.timer && rm {folder}/{name}.service {folder}/{name}.timer && {systemctl} daemon-reload
",
        user = if is_root { "" } else { "--user " },
    )
}

/// Writes what was said.
pub fn tell(text: &str, out: &mut dyn Write) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(out, "{}", crate::view::escape::line(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_argument_each_whatever_they_hold() {
        assert_eq!(quoted("a b"), "\"a b\"");
        assert_eq!(quoted("100%n $HOME \"x\" \\"), "\"100%%n $$HOME \\\"x\\\" \\\\\"");
        assert_eq!(quoted("a\nExecStart=evil"), "\"a\\nExecStart=evil\"");
    }

    #[test]
    fn units_do_not_overlap_and_do_not_hide_a_failure() {
        let command = ["/usr/bin/forge", "drift", "/srv/c.yaml"].map(str::to_owned);
        let units = units(&Wanted { cluster: "lab", command: &command, every: Duration::from_secs(900) });
        let has = |text: &str, line: &str| assert!(text.lines().any(|l| l == line), "{line}: {text}");
        assert_eq!(units.name, "forge-drift-lab");
        has(&units.service, "Type=oneshot");
        has(&units.service, "ExecStart=\"/usr/bin/forge\" \"drift\" \"/srv/c.yaml\"");
        has(&units.service, "SuccessExitStatus=2");
        has(&units.service, "TimeoutStartSec=900");
        has(&units.timer, "OnUnitInactiveSec=900");
        has(&units.timer, "RandomizedDelaySec=180");
        has(&units.timer, "WantedBy=timers.target");
    }
}
