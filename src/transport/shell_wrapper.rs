//! The command that starts a script's shell on a host: markers around it, sudo before it, and for acting scripts the
//! check that this run still holds the writer lock.
//!
//! The code is one line without `!` and without double backslashes, because the login shell that first reads it may be
//! csh or fish: csh interprets both even between single quotes.

use super::sandbox::HostView;
use super::target::HostPaths;
use crate::model::SecretStore;
use crate::script::{FragmentError, ScriptToken, ShellFragment};
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// What the started shell does.
#[derive(Clone, Copy, Debug)]
pub(super) enum ShellWrapper<'a> {
    /// Runs the script on stdin.
    Reading,
    /// Becomes the shell of a script that no other program can end: the script's last line prints the end markers.
    Observing,
    /// Runs the script on stdin if the writer lock still carries `token`, and holds the act lock meanwhile. Ends it after
    /// `stop_after`, if that is given.
    Acting { token: &'a ScriptToken, stop_after: Option<Duration> },
    /// Like [`Acting`](Self::Acting), with a file after the script: the first line on stdin is the script in base64,
    /// and the script reads the rest as its descriptor 7.
    Receiving { token: &'a ScriptToken },
    /// Runs a script that reads the rest of stdin itself: the first line on stdin is the script in base64.
    Keeping,
    /// Takes the writer lock and holds it until its stdin ends. A unit named `ours` does not block it, nor does a
    /// holder whose token is `earlier` or whose process is `ended`; each may be empty.
    Locking { token: &'a ScriptToken, owner: &'a str, ours: &'a str, earlier: &'a str, ended: &'a str },
}

/// How to become root, with the prompt that asks for a password.
#[derive(Clone, Copy, Debug)]
pub(super) enum RootAccess<'a> {
    Direct,
    SudoNoPassword,
    SudoPrompt(&'a str),
}

/// Sets the mark, and forge's own PATH before any program starts: the login's PATH may be another one and contain a
/// program that another user can replace. Anything before this in a command is a builtin or has an absolute path.
macro_rules! own_path {
    () => {
        "m=$1; PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH; "
    };
}

/// Refuses unless this run still holds the writer lock: its file names the token, and the process that holds it is alive
/// and has the file open. dash moves it to another descriptor than 9. Where the shell cannot see that, `flock` tells
/// whether the lock is held.
macro_rules! check_holder {
    () => {
        concat!(
            r#"t=; p=; k=; { read -r t; read -r p; } <"$f"; [ "$t" = "$2" ] || no lost; "#,
            r#"for d in "/proc/$p/fd/"*; do [ "$d" -ef "$f" ] && k=1; done; "#,
            r#"[ -n "$k" ] || { flock -n 9 9<"$f" && no lost; }; "#,
        )
    };
}

const READING_WRAPPER: &str = concat!(
    own_path!(),
    r#"printf '\001%s<' "$m"; printf '\001%s<' "$m" >&2; /bin/sh -s; s=$?; "#,
    r#"printf '\001%s>%d.' "$m" "$s"; printf '\001%s>%d.' "$m" "$s" >&2; exit "$s""#,
);

/// The shell of a probe script replaces the wrapper's, which saves a process for each observation.
const OBSERVING_WRAPPER: &str =
    concat!(own_path!(), r#"printf '\001%s<' "$m"; printf '\001%s<' "$m" >&2; exec /bin/sh -s "$m""#,);

/// The end of the last line of a probe script, whose `$1` is the mark.
const OBSERVING_END: &str = r#"; s=$?; printf '\001%s>%d.' "$1" "$s"; printf '\001%s>%d.' "$1" "$s" >&2; exit "$s""#;

/// Takes the act lock, whose file is `$f.act`, and checks that the run `$2` still holds the writer lock, whose file is
/// `$3`. The act lock is taken before the owner is read: a process that takes the writer lock writes its owner before it
/// checks the act lock, so at least one of the two sees the other. The file of the act lock names the owner too, with the
/// process of this shell: a script goes on if its run detaches from it. An earlier script of the run may have printed its
/// end markers while its shell had not yet exited, so the lock is awaited for a moment.
macro_rules! take_act_lock {
    () => {
        concat!(
            own_path!(),
            r#"f=$3; no() { printf '\001%s\041%s.' "$m" "$1"; exit 0; }; "#,
            r#"[ -f "$f" ] && [ -O "$f" ] && [ -f "$f.act" ] && [ -O "$f.act" ] || no lost; "#,
            r#"exec 8<>"$f.act"; flock -w 2 8 || no acting; "#,
            check_holder!(),
            r#"{ read -r l; read -r l; printf '%s\n%s\n' "$2" "$$"; while IFS= read -r l || [ -n "$l" ]; do printf '%s\n' "$l"; done; } <"$f" >"$f.act"; "#,
            r#"printf '\001%s<' "$m"; printf '\001%s<' "$m" >&2; "#,
        )
    };
}

/// The shell of an acting script replaces the wrapper's, which saves a process, and keeps the act lock.
const ACTING_WRAPPER: &str = concat!(take_act_lock!(), r#"exec /bin/sh -s "$m""#,);

/// What an acting script, whose `$1` is the mark, does on its last line before its code: its shell prints the end markers
/// however it exits, also after a signal: bash would print the status of the last command then. The act lock is released
/// before: the next script may follow at once. Only bash, leaving a function by `exit`, keeps it until it has ended.
const ACTING_START: &str = r#"forge_frame=$1; trap 's=$?; exec 8>&-; printf "\001%s>%d." "$forge_frame" "$s"; printf "\001%s>%d." "$forge_frame" "$s" >&2' EXIT; trap 'exit 143' HUP INT TERM; "#;

/// What precedes the call on the last line of an acting script. Its programs do not inherit the act lock, otherwise a daemon
/// would hold it forever: a shell keeps what it saves of a redirected descriptor from the programs that it starts. A
/// subshell in the background that starts none would hold it, so scripts have none.
const ACTING_CALL: &str = "8>&- ";

/// Like [`ACTING_WRAPPER`], for a script that is ended after `$4` seconds: this shell prints the end markers then.
const LIMITED_WRAPPER: &str = concat!(
    take_act_lock!(),
    r#"timeout -k 30 "$4" /bin/sh -s 8>&-; s=$?; exec 8>&-; "#,
    r#"printf '\001%s>%d.' "$m" "$s"; printf '\001%s>%d.' "$m" "$s" >&2; exit "$s""#,
);

/// Like [`ACTING_WRAPPER`], except for how the script runs: `read` consumes no byte after the line.
const RECEIVING_WRAPPER: &str = concat!(
    take_act_lock!(),
    r#"IFS= read -r c; c=$(printf %s "$c" | base64 -d); (eval "$c") 7<&0 8>&-; s=$?; exec 8>&-; "#,
    r#"printf '\001%s>%d.' "$m" "$s"; printf '\001%s>%d.' "$m" "$s" >&2; exit "$s""#,
);

/// Like [`RECEIVING_WRAPPER`], without a lock: what the script does must end with its stdin.
const KEEPING_WRAPPER: &str = concat!(
    own_path!(),
    r#"printf '\001%s<' "$m"; printf '\001%s<' "$m" >&2; IFS= read -r c; c=$(printf %s "$c" | base64 -d); "#,
    r#"(eval "$c"); s=$?; "#,
    r#"printf '\001%s>%d.' "$m" "$s"; printf '\001%s>%d.' "$m" "$s" >&2; exit "$s""#,
);

/// `$2` token, `$3` lock, `$4` owner text for `%b`, `$5` our unit, `$6` folder of long steps, `$7` our earlier token,
/// `$8` a process of forge that has ended.
/// A user who is neither root nor the owner of the lock's folder is refused before anything is created there. On most
/// systems that folder is world-writable, so a lock that is a symlink or belongs to another user is refused too, and
/// its owner reported. A holder that receives no heartbeat from its controller for [`LEASE_S`] releases the lock: a
/// controller that lost its power closes nothing. A holder of this run from a lost connection is killed, identified by
/// its token; so is one left by a run that has ended, identified by that run's process. The token in the arguments
/// proves that the process is the holder. A timer that waits is a guard of an earlier run. systemd keeps a file for each
/// transient unit that it knows: without one, it is not asked. If systemctl fails, every transient unit of forge that is
/// still loaded counts as running. If no long step is running, the folders of killed ones are removed, which hold their
/// scripts; a result is kept for ten minutes, since a controller that lost its connection may come back for it.
pub(super) const LOCKING_WRAPPER: &str = concat!(
    own_path!(),
    r#"f=$3; no() { printf '\001%s\041%s.' "$m" "$1"; exit 0; }; "#,
    r#"say() { printf '\001%s<%s\n%s\001%s>0.' "$m" "$1" "$2" "$m"; exit 0; }; "#,
    r#"command -v flock >/dev/null 2>&1 || no flock; d=${f%/*}; [ -d "$d" ] || mkdir -p "$d" 2>/dev/null; "#,
    r#"[ -O "$d" ] || [ "$(id -u)" = 0 ] || no root; "#,
    r#"for p in "$f" "$f.act"; do [ -e "$p" ] || [ -L "$p" ] || { umask 077; set -C; command : >"$p"; set +C; } 2>/dev/null; "#,
    r#"[ -L "$p" ] && say foreign link; [ -f "$p" ] && [ -O "$p" ] || say foreign "$(stat -c "%F by %U" "$p")"; done; exec 9<>"$f"; "#,
    r#"if [ -n "$7$8" ]; then t=; p=; { read -r t; read -r p; } <"$f"; k=; [ -n "$7" ] && [ "$t" = "$7" ] && k=1; "#,
    r#"[ -n "$8" ] && sed 1,2d "$f" | grep -qxF "process: $8" && k=1; [ -n "$k" ] && [ -n "$t" ] && "#,
    r#"tr "\000" " " <"/proc/$p/cmdline" 2>/dev/null | grep -qF "$t" && kill "$p" && flock -w 5 9; fi; "#,
    r#"if flock -n 9; then :; else o=$(sed 1,2d "$f"); [ -n "$o" ] || { sleep 1; o=$(sed 1,2d "$f"); }; say held "$o"; fi; "#,
    r#"printf '%s\n%s\n%b' "$2" "$$" "$4" >"$f"; "#,
    r#"flock -n 8 8<"$f.act" || { o=$(sed 1,2d "$f.act"); : >"$f"; say acting "$o"; }; "#,
    r#"l=; if [ -d /run/systemd/system ]; then for u in /run/systemd/transient/forge-*; do [ -e "$u" ] || continue; l=$(timeout 10 systemctl list-units --plain --no-legend --no-pager --type=service,timer "#,
    r#"--state=running,start,activating,deactivating,reloading,waiting "forge-*") || l=$(cd /run/systemd/transient && ls -d forge-*.service forge-*.timer 2>/dev/null); break; done; "#,
    r#"u=; [ -z "$l" ] || u=$(printf '%s\n' "$l" | while read -r n x; do "#,
    r#"[ "$n" = "$5.service" ] || [ -z "$n" ] || { [ -e "/run/systemd/transient/$n" ] && printf '%s\n' "${n%.service}"; }; done); "#,
    r#"else u=$(for d in "$6"/forge-*; do [ "$d" = "$6/$5" ] && continue; [ -e "$d/alive" ] || continue; "#,
    r#"flock -n -s "$d/alive" true || printf '%s\n' "${d##*/}"; done); fi; "#,
    r#"[ -z "$u" ] || { : >"$f"; say unit "$u"; }; "#,
    r#"for d in "$6"/forge-*; do [ "$d" = "$6/$5" ] && continue; [ -e "$d" ] || continue; "#,
    r#"[ -e "$d/result" ] && [ -z "$(find "$d" -maxdepth 0 -mmin +10)" ] || rm -rf "$d"; done; "#,
    r#"printf '\001%s<got\n' "$m"; while timeout 90 grep -q "" 9>&-; do :; done; : >"$f""#,
);

/// The login's PATH may contain other programs than the host's own.
const ENVIRONMENT: &str =
    "exec /usr/bin/env LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Like [`ENVIRONMENT`], for a user who is not root. NixOS has sudo in its own folder.
const SUDO: &str = "exec /usr/bin/env LC_ALL=C \
                    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/wrappers/bin sudo -H";

/// Returns text as an argument of printf's `%b`, in characters that no shell interprets: csh ends a quoted word at a
/// line break and expands `!` in it.
fn escape_for_printf(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" .:,@/_=+()-".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("\\0{byte:03o}") };
    text.bytes().map(one).collect()
}

/// Reports whether the words of a command start a shell of forge's own, of this or another version. Only the beginning
/// of a long command may be known.
pub fn is_own_shell(words: &[String]) -> bool {
    let [program, option, script, ..] = words else { return false };
    let begins = script.starts_with("m=$1; ") && script.contains(r"printf '\001%s");
    program.rsplit('/').next() == Some("sh") && option == "-c" && begins
}

impl ShellWrapper<'_> {
    /// Returns the command for a login shell. `mark` frames the script's output. With `view`, the command runs in that
    /// view of the host.
    ///
    /// # Errors
    /// The owner text contains a NUL byte.
    pub(super) fn build_command(
        &self,
        mark: &ScriptToken,
        via: RootAccess<'_>,
        paths: &HostPaths,
        view: Option<&HostView>,
    ) -> Result<String, FragmentError> {
        let start = match via {
            RootAccess::Direct if view.is_some() => ShellFragment::new().code(ENVIRONMENT),
            RootAccess::Direct => ShellFragment::new().code("exec"),
            RootAccess::SudoNoPassword => ShellFragment::new().code(SUDO).code(" -n --"),
            RootAccess::SudoPrompt(prompt) => ShellFragment::new().code(SUDO).code(" -S -p").word(prompt).code(" --"),
        };
        let start = match view {
            Some(view) => view.append_entry(start),
            None => start,
        };
        let whole = start
            .code(" /bin/sh -c")
            .word(self.wrapper_code())
            .word("forge")
            .word(mark.as_str())
            .append_fragment(self.wrapper_arguments(paths));
        Ok(whole.render(&SecretStore::default())?.expose_secret().to_owned())
    }

    /// Returns a rendered script as this wrapper needs it: one that runs in the wrapper's own place prints the end
    /// markers itself.
    pub(super) fn complete_script(&self, script: SecretString) -> SecretString {
        match self {
            ShellWrapper::Observing => SecretString::from(script.expose_secret().to_owned() + OBSERVING_END),
            ShellWrapper::Acting { stop_after: None, .. } => {
                let (code, call) = script.expose_secret().rsplit_once('\n').unwrap_or(("", script.expose_secret()));
                SecretString::from(format!("{code}\n{ACTING_START}{ACTING_CALL}{call}; exit"))
            }
            _ => script,
        }
    }

    fn wrapper_code(&self) -> &'static str {
        match self {
            ShellWrapper::Reading => READING_WRAPPER,
            ShellWrapper::Observing => OBSERVING_WRAPPER,
            ShellWrapper::Acting { stop_after: None, .. } => ACTING_WRAPPER,
            ShellWrapper::Acting { .. } => LIMITED_WRAPPER,
            ShellWrapper::Receiving { .. } => RECEIVING_WRAPPER,
            ShellWrapper::Keeping => KEEPING_WRAPPER,
            ShellWrapper::Locking { .. } => LOCKING_WRAPPER,
        }
    }

    fn wrapper_arguments(&self, paths: &HostPaths) -> ShellFragment {
        let none = ShellFragment::new();
        match self {
            ShellWrapper::Reading | ShellWrapper::Observing | ShellWrapper::Keeping => none,
            ShellWrapper::Receiving { token } => none.word(token.as_str()).word(&paths.lock),
            ShellWrapper::Acting { token, stop_after } => {
                let own = none.word(token.as_str()).word(&paths.lock);
                match stop_after {
                    Some(limit) => own.number(limit.as_secs().max(1)),
                    None => own,
                }
            }
            ShellWrapper::Locking { token, owner, ours, earlier, ended } => none
                .word(token.as_str())
                .word(&paths.lock)
                .word(escape_for_printf(owner))
                .word(*ours)
                .word(&paths.run)
                .word(*earlier)
                .word(*ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::lease::LEASE_S;

    /// Returns every command, with an owner text that contains all characters that a shell may interpret.
    fn list_commands() -> Vec<String> {
        let (mark, token) = (ScriptToken::new("MK"), ScriptToken::new("TK"));
        let owner = "by: eve`id`@c1!! \\ $x 'q' \"é%\n";
        let locking = ShellWrapper::Locking { token: &token, owner, ours: "", earlier: "", ended: "h b n 1 2" };
        let boots = [
            ShellWrapper::Reading,
            ShellWrapper::Observing,
            ShellWrapper::Acting { token: &token, stop_after: None },
            ShellWrapper::Acting { token: &token, stop_after: Some(Duration::from_secs(7)) },
            ShellWrapper::Receiving { token: &token },
            ShellWrapper::Keeping,
            locking,
        ];
        let vias = [RootAccess::Direct, RootAccess::SudoNoPassword, RootAccess::SudoPrompt("forge-t:")];
        let view = HostView::parse("ready 7 5f 9 yes");
        let mut all = Vec::new();
        for (boot, via) in boots.iter().flat_map(|boot| vias.iter().map(move |via| (boot, via))) {
            for view in [None, view.as_ref()] {
                all.push(boot.build_command(&mark, *via, &HostPaths::default(), view).unwrap());
            }
        }
        all
    }

    /// Text that csh and fish interpret even between single quotes.
    #[test]
    fn commands_survive_any_login_shell() {
        for command in list_commands() {
            let bad = ["\n", "!", r"\\", r"\'"].map(|text| command.replace(r"'\''", "").contains(text));
            assert_eq!(bad, [false; 4], "{command}");
        }
    }

    /// The login's PATH may start with a folder of another user.
    #[test]
    fn programs_are_not_looked_up_in_the_login_path() {
        for command in list_commands() {
            let (before, _) = command.split_once("PATH=").unwrap();
            let start = before.split(' ').collect::<Vec<_>>();
            let own =
                matches!(start[..], ["exec", "/bin/sh", "-c", "'m=$1;", ""] | ["exec", "/usr/bin/env", "LC_ALL=C", ""]);
            assert!(own, "{command}");
        }
    }

    #[test]
    fn owner_text_reaches_the_host_unchanged() {
        let owner = "by: eve`id`@c1!! \\ $x 'q' \"é%\nline\n";
        for shell in ["dash", "bash"] {
            let mut printf = std::process::Command::new(shell);
            let said = printf.args(["-c", "printf %b \"$1\"", shell, &escape_for_printf(owner)]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), owner, "{shell}");
        }
    }

    /// Completes `code` as the script of a wrapper, and returns what a shell that reads it prints, and its exit status.
    fn run_completed(shell: &str, wrapper: ShellWrapper<'_>, code: &str) -> (String, String, Option<i32>) {
        let script =
            wrapper.complete_script(SecretString::from(format!("probe() {{\nexec </dev/null\n{code}\n}}\nprobe")));
        run_text(shell, script.expose_secret())
    }

    fn run_text(shell: &str, text: &str) -> (String, String, Option<i32>) {
        let mut child = std::process::Command::new(shell);
        let piped = std::process::Stdio::piped;
        let mut child = child.args(["-s", "MK"]).stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(done.stdout), text(done.stderr), done.status.code())
    }

    /// A probe script runs in the wrapper's own shell and prints the end markers itself, after its last command.
    #[test]
    fn probe_script_prints_its_end_markers() {
        for shell in ["dash", "bash"] {
            let whole = run_completed(shell, ShellWrapper::Observing, "echo answer\nreturn 3");
            assert_eq!(whole, ("answer\n\x01MK>3.".to_owned(), "\x01MK>3.".to_owned(), Some(3)), "{shell}");
            let cut = run_text(shell, "probe() {\nexec </dev/null\necho answer\nreturn 3\n}");
            assert_eq!(cut.0, "", "{shell}");
        }
    }

    /// The shell of an acting script prints the end markers wherever the script exits, once. Its subshells do not.
    #[test]
    fn acting_script_prints_its_end_markers_wherever_it_exits() {
        let token = ScriptToken::new("TK");
        let acting = ShellWrapper::Acting { token: &token, stop_after: None };
        for shell in ["dash", "bash"] {
            for code in ["(exit 7)\necho answer\nreturn 3", "set -- other\necho answer\nexit 3"] {
                let whole = run_completed(shell, acting, code);
                let expected = ("answer\n\x01MK>3.".to_owned(), "\x01MK>3.".to_owned(), Some(3));
                assert_eq!(whole, expected, "{shell}: {code}");
            }
            for signal in ["TERM", "HUP"] {
                let (stdout, _, status) = run_completed(shell, acting, &format!("true\nkill -{signal} $$\nsleep 5"));
                assert_eq!((stdout.as_str(), status), ("\x01MK>143.", Some(143)), "{shell}: {signal}");
            }
            let (_, _, status) = run_completed(shell, acting, "set -u\necho \"$unset\"");
            assert_ne!(status, Some(0), "{shell}");
        }
    }

    /// The shell holds the act lock to its end. A process that the script leaves behind does not have it.
    #[test]
    fn acting_script_keeps_the_act_lock_from_its_processes() {
        let token = ScriptToken::new("TK");
        let acting = ShellWrapper::Acting { token: &token, stop_after: None };
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let code = format!(
            "flock -n {0} true || echo held\nsleep 5 >/dev/null 2>&1 &\n(setsid sleep 5 >/dev/null 2>&1 &)\n",
            lock.display()
        );
        for shell in ["dash", "bash"] {
            let script = acting.complete_script(SecretString::from(format!("probe() {{\n{code}}}\nprobe")));
            let script = format!("exec 8<>{0}\nflock -n 8 || echo taken\n{1}", lock.display(), script.expose_secret());
            let (stdout, ..) = run_text(shell, &script);
            assert_eq!(stdout, "held\n\x01MK>0.", "{shell}");
            // As long as the next script waits: a process of this one may not have started its program yet.
            let free = std::process::Command::new("flock").args(["-w", "2"]).arg(&lock).arg("true").status().unwrap();
            assert!(free.success(), "{shell}");
        }
    }

    #[test]
    fn locking_wrapper_uses_the_lease_timeout() {
        assert!(LOCKING_WRAPPER.contains(&format!("timeout {LEASE_S} grep")));
    }

    #[test]
    fn sudo_prompt_is_passed_as_one_argument() {
        let mark = ScriptToken::new("MK");
        let command = ShellWrapper::Reading
            .build_command(&mark, RootAccess::SudoPrompt("forge-t:"), &HostPaths::default(), None)
            .unwrap();
        let (env, sudo) = command.split_once(" sudo ").unwrap();
        assert!(env.starts_with("exec /usr/bin/env LC_ALL=C PATH=/usr/local/sbin:"), "{command}");
        assert!(sudo.starts_with("-H -S -p 'forge-t:' -- /bin/sh -c 'm=$1;"), "{command}");
        assert!(command.ends_with("' 'forge' 'MK'"), "{command}");
    }
}
