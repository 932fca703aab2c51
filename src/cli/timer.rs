//! `--install-timer`: a systemd service and timer on this machine that check for drift periodically.

use super::atomic_file;
use super::error::CliError;
use super::inventory::quote_argument;
use super::verb_context::VerbContext;
use camino::{Utf8Path, Utf8PathBuf};
use std::io::{self, Write};
use std::time::Duration;

/// Unit directory of the system.
const SYSTEM_UNIT_DIR: &str = "/etc/systemd/system";

/// Interval of the timer and directory of its units.
#[derive(Clone, Debug, clap::Args)]
pub struct TimerArgs {
    /// Write a systemd service and timer for this command on this machine, and print how to enable and remove them
    #[arg(long, conflicts_with_all = ["history", "observed"])]
    pub install_timer: bool,
    /// With --install-timer: interval between runs
    #[arg(long, value_name = "DURATION", default_value = "15m", requires = "install_timer", value_parser = super::duration::parse_positive_duration)]
    pub every: Duration,
    /// With --install-timer: unit directory; defaults to /etc/systemd/system for root, else ~/.config/systemd/user
    #[arg(long, value_name = "DIR", requires = "install_timer")]
    pub unit_dir: Option<Utf8PathBuf>,
}

/// The text of the units.
pub struct TimerUnits {
    /// The name of the units, without suffix.
    pub name: String,
    pub service: String,
    pub timer: String,
}

/// Input of the units.
pub struct TimerSpec<'w> {
    pub cluster: &'w str,
    /// The program and its arguments, one word each.
    pub command: &'w [String],
    pub every: Duration,
}

/// Returns the units for `wanted`.
pub fn render_units(wanted: &TimerSpec<'_>) -> TimerUnits {
    let name = format!("forge-drift-{}", wanted.cluster);
    let command: Vec<String> = wanted.command.iter().map(|word| quote_word(word)).collect();
    let every = wanted.every.as_secs().max(1);
    // Spreads the checks of many clusters over time.
    let spread = (every / 5).max(1);
    let service = format!(
        "[Unit]
Description=forge drift check of {cluster}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart={command}
# Exit code 2 means that drift was found, which the report lists. Other codes fail the unit: see `systemctl --failed`.
SuccessExitStatus=2
# A run that hangs is stopped before the next one is due; systemd does not start a running service again.
TimeoutStartSec={every}
Nice=10
",
        cluster = wanted.cluster,
        command = command.join(" "),
    );
    let timer = format!(
        "[Unit]
Description=forge drift check of {cluster} every {every} seconds

[Timer]
OnBootSec={spread}
OnUnitInactiveSec={every}
RandomizedDelaySec={spread}

[Install]
WantedBy=timers.target
",
        cluster = wanted.cluster,
    );
    TimerUnits { name, service, timer }
}

/// Quotes a word for `ExecStart`: systemd expands `%` and `$`, and splits words at blanks.
fn quote_word(word: &str) -> String {
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

/// Writes the units, and returns the text on how to enable and remove them.
///
/// # Errors
/// The unit directory is unknown or cannot be written.
pub fn install_units<B>(
    cx: &VerbContext<'_, B>,
    args: &TimerArgs,
    cluster: &str,
    command: &[String],
) -> Result<String, CliError> {
    let is_root = rustix::process::geteuid().is_root();
    let folder = unit_folder(args, is_root, cx.environment.home.as_deref())?;
    let units = render_units(&TimerSpec { cluster, command, every: args.every });
    fs_err::create_dir_all(&folder).map_err(CliError::unexpected)?;
    for (ending, text) in [("service", &units.service), ("timer", &units.timer)] {
        atomic_file::replace_file(&folder.join(format!("{}.{ending}", units.name)), |out| {
            out.write_all(text.as_bytes())
        })?;
    }
    let folder = camino::absolute_utf8(&folder).unwrap_or(folder);
    let is_searched = default_unit_dir(is_root, cx.environment.home.as_deref()).is_some_and(|dir| dir == folder);
    Ok(format_instructions(&units.name, &folder, is_root, is_searched))
}

fn unit_folder(args: &TimerArgs, is_root: bool, home: Option<&Utf8Path>) -> Result<Utf8PathBuf, CliError> {
    args.unit_dir.clone().or_else(|| default_unit_dir(is_root, home)).ok_or_else(|| {
        CliError::usage("`$HOME` is not set, so the user unit directory is unknown")
            .hint("pass a directory with `--unit-dir`")
    })
}

/// Returns the directory that systemd searches for units of this user.
fn default_unit_dir(is_root: bool, home: Option<&Utf8Path>) -> Option<Utf8PathBuf> {
    match is_root {
        true => Some(SYSTEM_UNIT_DIR.into()),
        false => home.map(|home| home.join(".config/systemd/user")),
    }
}

fn format_instructions(name: &str, folder: &Utf8Path, is_root: bool, is_searched: bool) -> String {
    let systemctl = if is_root { "systemctl" } else { "systemctl --user" };
    let (service, timer) = (format!("{folder}/{name}.service"), format!("{folder}/{name}.timer"));
    // systemd finds a unit by its name only in its own directories. `link` makes a unit of another one known by its
    // name, also for `disable`, which removes the links again. It needs absolute paths.
    let link = match is_searched {
        true => String::new(),
        false => format!("{systemctl} link {} {} && ", quote_argument(&service), quote_argument(&timer)),
    };
    let linger = if is_root {
        ""
    } else {
        "  loginctl enable-linger                                  (keeps it running after you log out)\n"
    };
    let linked = if is_searched { String::new() } else { format!(" {name}.service") };
    format!(
        "written: {service}
written: {timer}

to enable it:
  {link}{systemctl} daemon-reload && {systemctl} enable --now {name}.timer
{linger}to check it:
  {systemctl} list-timers {name}.timer
  journalctl {user}-u {name}                     (its findings; `{systemctl} --failed` lists failed runs)
to remove it:
  {systemctl} disable --now {name}.timer{linked} && rm {quoted} && {systemctl} daemon-reload
",
        quoted = format_args!("{} {}", quote_argument(&service), quote_argument(&timer)),
        user = if is_root { "" } else { "--user " },
    )
}

/// Writes the text line by line, escaped.
pub fn write_instructions(text: &str, out: &mut dyn Write) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(out, "{}", crate::view::escape::escape_line(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_word_is_one_argument_in_a_unit_file() {
        assert_eq!(quote_word("a b"), "\"a b\"");
        assert_eq!(quote_word("100%n $HOME \"x\" \\"), "\"100%%n $$HOME \\\"x\\\" \\\\\"");
        assert_eq!(quote_word("a\nExecStart=evil"), "\"a\\nExecStart=evil\"");
    }

    #[test]
    fn units_in_a_directory_that_systemd_does_not_search_are_linked() {
        let text = format_instructions("forge-drift-lab", Utf8Path::new("/srv/my units"), true, false);
        let files = "'/srv/my units/forge-drift-lab.service' '/srv/my units/forge-drift-lab.timer'";
        let reload = "systemctl daemon-reload";
        let enable = format!("  systemctl link {files} && {reload} && systemctl enable --now forge-drift-lab.timer\n");
        assert!(text.contains(&enable), "{text}");
        let disable = "systemctl disable --now forge-drift-lab.timer forge-drift-lab.service";
        assert!(text.contains(&format!("  {disable} && rm {files} && {reload}\n")), "{text}");
        let text = format_instructions("forge-drift-lab", Utf8Path::new(SYSTEM_UNIT_DIR), true, true);
        assert!(text.contains(&format!("  {reload} && systemctl enable --now forge-drift-lab.timer\n")), "{text}");
        assert!(text.contains("  systemctl disable --now forge-drift-lab.timer && rm /etc/systemd/"), "{text}");
    }

    #[test]
    fn units_do_not_overlap_and_report_failures() {
        let command = ["/usr/bin/forge", "drift", "/srv/c.yaml"].map(str::to_owned);
        let units = render_units(&TimerSpec { cluster: "lab", command: &command, every: Duration::from_secs(900) });
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
