//! The command that starts a script's shell on a host: markers around it, sudo before it, and for acting
//! scripts the check that the writer lock is still ours.
//!
//! The code is one line without `!` and without double backslashes, because the login shell that first
//! reads it may be csh or fish.

use super::target::HostPaths;
use crate::model::SecretStore;
use crate::script::{Fragment, FragmentError, Token};
use secrecy::ExposeSecret;

/// What the started shell does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Boot<'a> {
    /// Runs the script on stdin.
    Reading,
    /// Runs the script on stdin if the writer lock still carries `token`, holding the act lock meanwhile.
    Acting { token: &'a Token },
    /// As [`Acting`](Self::Acting), with a file behind the script: its first line is the script in base64, and the script
    /// reads what follows as its descriptor 7.
    Receiving { token: &'a Token },
    /// Takes the writer lock and holds it until its stdin ends. A unit named `ours` is no obstacle, nor is
    /// a holder whose token is `earlier`; both may be empty.
    Locking { token: &'a Token, owner: &'a str, ours: &'a str, earlier: &'a str },
}

/// How root is reached, with what the prompt for a password looks like.
#[derive(Clone, Copy, Debug)]
pub(super) enum Via<'a> {
    Direct,
    SudoNoPassword,
    SudoPrompt(&'a str),
}

const READING: &str = r#"m=$1; printf '\001%s<' "$m"; printf '\001%s<' "$m" >&2; sh -s; s=$?; printf '\001%s>%d.' "$m" "$s"; printf '\001%s>%d.' "$m" "$s" >&2; exit "$s""#;

/// `$2` token, `$3` lock. The act lock is taken before the owner is read: whoever takes the writer lock
/// writes its owner before it looks at the act lock, so one of the two sees the other.
/// The script's own processes do not inherit the act lock, or a daemon would hold it for ever.
const ACTING: &str = concat!(
    r#"m=$1; f=$3; no() { printf '\001%s!%s.' "$m" "$1"; exit 0; }; "#,
    r#"[ -f "$f" ] && [ -O "$f" ] && [ -f "$f.act" ] && [ -O "$f.act" ] || no lost; "#,
    r#"exec 8<>"$f.act"; flock -n 8 || no acting; "#,
    r#"t=; read -r t <"$f"; [ "$t" = "$2" ] || no lost; flock -n "$f" true && no lost; cat "$f" >"$f.act"; "#,
    r#"printf '\001%s<' "$m"; printf '\001%s<' "$m" >&2; sh -s 8>&-; s=$?; exec 8>&-; "#,
    r#"printf '\001%s>%d.' "$m" "$s"; printf '\001%s>%d.' "$m" "$s" >&2; exit "$s""#,
);

/// As [`ACTING`], but for what runs: `read` takes no byte beyond the line.
const RECEIVING: &str = concat!(
    r#"m=$1; f=$3; no() { printf '\001%s!%s.' "$m" "$1"; exit 0; }; "#,
    r#"[ -f "$f" ] && [ -O "$f" ] && [ -f "$f.act" ] && [ -O "$f.act" ] || no lost; "#,
    r#"exec 8<>"$f.act"; flock -n 8 || no acting; "#,
    r#"t=; read -r t <"$f"; [ "$t" = "$2" ] || no lost; flock -n "$f" true && no lost; cat "$f" >"$f.act"; "#,
    r#"printf '\001%s<' "$m"; printf '\001%s<' "$m" >&2; IFS= read -r c; c=$(printf %s "$c" | base64 -d); "#,
    r#"(eval "$c") 7<&0 8>&-; s=$?; exec 8>&-; "#,
    r#"printf '\001%s>%d.' "$m" "$s"; printf '\001%s>%d.' "$m" "$s" >&2; exit "$s""#,
);

/// `$2` token, `$3` lock, `$4` owner text, `$5` our unit, `$6` folder of long steps, `$7` our earlier token.
/// Whoever is neither root nor owns the lock's folder is refused before anything is made there. That folder is open to
/// all on most systems, so a lock that is a link or somebody else's is refused too, and named with its owner.
/// A holder that does not hear from its controller for [`LEASE_S`] gives the lock up: a controller that lost
/// its power closes nothing. A holder of our own from a lost connection is ended, known by its token.
const LOCKING: &str = concat!(
    r#"m=$1; f=$3; no() { printf '\001%s!%s.' "$m" "$1"; exit 0; }; "#,
    r#"say() { printf '\001%s<%s\n%s\001%s>0.' "$m" "$1" "$2" "$m"; exit 0; }; "#,
    r#"command -v flock >/dev/null 2>&1 || no flock; d=${f%/*}; [ -d "$d" ] || mkdir -p "$d" 2>/dev/null; "#,
    r#"[ -O "$d" ] || [ "$(id -u)" = 0 ] || no root; "#,
    r#"for p in "$f" "$f.act"; do [ -e "$p" ] || [ -L "$p" ] || (umask 077; set -C; : >"$p") 2>/dev/null; "#,
    r#"[ -L "$p" ] && say foreign link; [ -f "$p" ] && [ -O "$p" ] || say foreign "$(stat -c "%F by %U" "$p")"; done; exec 9<>"$f"; "#,
    r#"if [ -n "$7" ]; then p=; { read -r t; read -r p; } <"$f"; "#,
    r#"[ "$t" = "$7" ] && tr "\000" " " <"/proc/$p/cmdline" 2>/dev/null | grep -qF "$7" && kill "$p" && flock -w 5 9; fi; "#,
    r#"if flock -n 9; then :; else o=$(sed 1,2d "$f"); [ -n "$o" ] || { sleep 1; o=$(sed 1,2d "$f"); }; say held "$o"; fi; "#,
    r#"printf '%s\n%s\n%s' "$2" "$$" "$4" >"$f"; "#,
    r#"flock -n "$f.act" true || { o=$(sed 1,2d "$f.act"); : >"$f"; say acting "$o"; }; "#,
    r#"if [ -d /run/systemd/system ]; then u=$(timeout 10 systemctl list-units --plain --no-legend --no-pager --type=service "#,
    r#"--state=running,start,activating,deactivating,reloading "forge-*" | while read -r n x; do "#,
    r#"[ "$n" = "$5.service" ] || [ ! -e "/run/systemd/transient/$n" ] || printf '%s\n' "${n%.service}"; done); "#,
    r#"else u=$(for d in "$6"/forge-*; do p=; [ -f "$d/pid" ] && read -r p <"$d/pid"; [ "$d" = "$6/$5" ] && p=; "#,
    r#"[ -n "$p" ] && tr "\000" " " <"/proc/$p/cmdline" 2>/dev/null | grep -qF "$d/run" && printf '%s\n' "${d##*/}"; done); fi; "#,
    r#"[ -z "$u" ] || { : >"$f"; say unit "$u"; }; "#,
    r#"printf '\001%s<got\n' "$m"; while timeout 90 sh -c "read -r x" 9>&-; do :; done; : >"$f""#,
);

/// How long a holder waits for a sign of life: the `90` in [`LOCKING`]. Seconds.
pub(super) const LEASE_S: u64 = 90;

/// Returns whether the words of a command begin a shell of forge's own, of this version or another. Of a long command only
/// the beginning may be known.
pub fn is_own_shell(words: &[String]) -> bool {
    let [program, option, script, ..] = words else { return false };
    let begins = script.starts_with("m=$1; ") && script.contains(r"printf '\001%s");
    program.rsplit('/').next() == Some("sh") && option == "-c" && begins
}

impl Boot<'_> {
    /// Returns the command for a login shell. `mark` frames what the script prints.
    ///
    /// # Errors
    /// A NUL byte in the owner text.
    pub(super) fn command(&self, mark: &Token, via: Via<'_>, paths: &HostPaths) -> Result<String, FragmentError> {
        let start = match via {
            Via::Direct => Fragment::new().code("exec sh -c"),
            Via::SudoNoPassword => Fragment::new().code("exec env LC_ALL=C sudo -H -n -- sh -c"),
            Via::SudoPrompt(prompt) => {
                Fragment::new().code("exec env LC_ALL=C sudo -H -S -p").word(prompt).code(" -- sh -c")
            }
        };
        let whole = start.word(self.code()).word("forge").word(mark.as_str()).then(self.arguments(paths));
        Ok(whole.render(&SecretStore::default())?.expose_secret().to_owned())
    }

    fn code(&self) -> &'static str {
        match self {
            Boot::Reading => READING,
            Boot::Acting { .. } => ACTING,
            Boot::Receiving { .. } => RECEIVING,
            Boot::Locking { .. } => LOCKING,
        }
    }

    fn arguments(&self, paths: &HostPaths) -> Fragment {
        let none = Fragment::new();
        match self {
            Boot::Reading => none,
            Boot::Acting { token } | Boot::Receiving { token } => none.word(token.as_str()).word(&paths.lock),
            Boot::Locking { token, owner, ours, earlier } => {
                none.word(token.as_str()).word(&paths.lock).word(*owner).word(*ours).word(&paths.run).word(*earlier)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_survives_any_login_shell() {
        for code in [READING, ACTING, RECEIVING, LOCKING] {
            assert!(!code.contains('\n') && !code.contains(r"\\"), "{code}");
        }
    }

    #[test]
    fn the_lease_is_what_it_is_said_to_be() {
        assert!(LOCKING.contains(&format!("timeout {LEASE_S} sh")));
    }

    #[test]
    fn sudo_gets_its_prompt_as_one_word() {
        let mark = Token::new("MK");
        let command = Boot::Reading.command(&mark, Via::SudoPrompt("forge-t:"), &HostPaths::default()).unwrap();
        assert!(command.starts_with("exec env LC_ALL=C sudo -H -S -p 'forge-t:' -- sh -c 'm=$1;"), "{command}");
        assert!(command.ends_with("' 'forge' 'MK'"), "{command}");
    }
}
