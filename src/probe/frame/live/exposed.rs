//! Paths in the directory of another user, who swaps files while forge reads them.

use super::*;
use crate::probe::{AuthorizedKeysState, UnansweredReason};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// A user other than root.
const OTHER: u32 = 65_534;

const SECRET: &str = "secret of root\n";

/// Another user's home and a vault of root's; `shim` contains programs that run in place of the host's.
struct ExposedDirectory(tempfile::TempDir);

impl ExposedDirectory {
    /// Returns `None` if this user cannot give files away.
    fn new() -> Option<Self> {
        let place = Self(tempfile::tempdir().expect("a place"));
        for name in ["home/.ssh", "vault/.ssh", "group", "shim"] {
            std::fs::create_dir_all(place.path(name)).expect("a folder");
        }
        std::fs::set_permissions(place.path("group"), PermissionsExt::from_mode(0o775)).expect("a mode");
        for name in ["vault/f", "vault/.ssh/authorized_keys"] {
            place.write(name, SECRET, 0o600);
        }
        let given = ["home", "home/.ssh"].iter().all(|name| place.give(name));
        given.then_some(place)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("text").to_owned()
    }

    fn write(&self, name: &str, body: &str, mode: u32) {
        std::fs::write(self.path(name), body).expect("written");
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).expect("a mode");
    }

    fn give(&self, name: &str) -> bool {
        chown(self.path(name), Some(OTHER), Some(OTHER)).is_ok()
    }

    /// Puts a program in front of the host's program of that name. It runs `before`, then the host's program, then
    /// `after`.
    fn shim(&self, program: &str, before: &str, after: &str) {
        let shim = self.path("shim");
        let code = format!("#!/bin/sh\n{before}\nPATH=${{PATH#{shim}:}} {program} \"$@\"\nr=$?\n{after}\nexit $r\n");
        self.write(&format!("shim/{program}"), &code, 0o755);
    }

    fn ask(&self, shell: &str, probes: &[Probe]) -> Observation {
        let probes: BTreeSet<Probe> = probes.iter().cloned().collect();
        let compiled = compile_probes(&probes, &[], ScriptToken::new(TOKEN), None);
        let text = compiled.script.render_text(&SecretStore::default()).expect("no NUL");
        let first = format!("PATH={}:/usr/local/sbin", self.path("shim"));
        let text = text.expose_secret().replace("PATH=/usr/local/sbin", &first);
        parse_output(&compiled, &send_text(shell, &text), None).expect("well-formed")
    }

    fn wanted(&self, name: &str) -> Probe {
        Probe::Path { path: self.path(name), want: Some("0".repeat(64)) }
    }
}

fn body(seen: &Observation, probe: &Probe) -> Option<String> {
    info(seen, probe).body.map(|body| body.raw().to_owned())
}

fn digest(body: &str) -> Option<String> {
    use sha2::Digest;
    Some(crate::model::to_hex(&sha2::Sha256::digest(body.as_bytes())))
}

/// Each program that could read a file first replaces it, and then restores it.
#[test]
fn file_replaced_by_symlink_or_pipe_is_not_read() {
    for trap in ["ln -s \"$V\" \"$F\"", "mkfifo \"$F\""] {
        for shell in SHELLS {
            let Some(place) = ExposedDirectory::new() else { return };
            place.write("home/f", "theirs\n", 0o644);
            place.give("home/f");
            let (file, vault) = (place.path("home/f"), place.path("vault/f"));
            let before = format!(
                "F='{file}' V='{vault}'\nif [ ! -e \"$F.old\" ]; then mv -T \"$F\" \"$F.old\" && {trap}; mine=yes; fi"
            );
            let after = "[ -z \"${mine-}\" ] || mv -T \"$F.old\" \"$F\"";
            for program in ["sha256sum", "head", "timeout", "tar"] {
                // Sections run under `timeout` themselves: only the one around a single file counts.
                let own = if program == "timeout" { "[ \"$1\" = 10 ] || exec /usr/bin/timeout \"$@\"\n" } else { "" };
                place.shim(program, &format!("{own}{before}"), after);
            }
            let started = Instant::now();
            let seen = place.ask(shell, &[place.wanted("home/f")]);
            let told = info(&seen, &place.wanted("home/f"));
            assert_eq!((told.kind, told.sha256, told.body), (PathType::File, None, None), "{shell} {trap}");
            assert!(started.elapsed() < Duration::from_secs(8), "{shell} {trap}");
            assert_eq!(std::fs::read_to_string(&file).expect("put back"), "theirs\n");
        }
    }
}

#[test]
fn body_is_returned_only_if_path_owners_may_read_it() {
    let Some(place) = ExposedDirectory::new() else { return };
    let of_root =
        [("home/private", 0o600, None), ("home/public", 0o644, Some("body\n")), ("vault/own", 0o600, Some("body\n"))];
    for (name, mode, _) in of_root {
        place.write(name, "body\n", mode);
    }
    let theirs = [("home/theirs", Some("body\n")), ("group/theirs", Some("body\n"))];
    for (name, _) in theirs {
        place.write(name, "body\n", 0o600);
        place.give(name);
    }
    place.write("group/of-root", "body\n", 0o640);
    let expected = of_root.iter().map(|(name, _, body)| (*name, *body)).chain(theirs).chain([("group/of-root", None)]);
    for shell in SHELLS {
        for (name, shown) in expected.clone() {
            let probe = place.wanted(name);
            let seen = place.ask(shell, std::slice::from_ref(&probe));
            assert_eq!(body(&seen, &probe).as_deref(), shown, "{shell} {name}");
            assert_eq!(info(&seen, &probe).sha256, digest("body\n"), "{shell} {name}");
            let Probe::Path { path, .. } = probe else { panic!("a path") };
            let same = Probe::Path { path, want: digest("body\n") };
            assert_eq!(body(&place.ask(shell, std::slice::from_ref(&same)), &same), None, "{shell} {name}");
        }
    }
}

/// `sha256sum` and `tar` log their arguments.
#[test]
fn symlink_owned_by_another_user_is_not_followed() {
    let Some(place) = ExposedDirectory::new() else { return };
    symlink(place.path("vault"), place.path("home/l")).expect("a link");
    let noted = place.path("noted");
    for program in ["sha256sum", "tar", "head"] {
        place.shim(program, &format!("printf '%s\\n' {program} \"$*\" >> '{noted}'"), "");
    }
    place.write("vault/plain", "x", 0o644);
    let probes = [place.wanted("home/l/f"), place.wanted("vault/plain")];
    let link = place.path("home/l");
    let why = format!("{link} is a symbolic link that user nobody can replace: forge does not follow it");
    for shell in SHELLS {
        let seen = place.ask(shell, &probes);
        assert_eq!(
            seen.get(&probes[0]),
            Err(UnansweredReason { barred: true, ..UnansweredReason::new(why.as_str()) }),
            "{shell}"
        );
        assert_eq!(body(&seen, &probes[1]).as_deref(), Some("x"), "{shell}");
        let noted = std::fs::read_to_string(&noted).expect("what was read");
        assert!(noted.contains("vault/plain") && !noted.contains("vault/f") && !noted.contains("tar\n"), "{noted}");
        assert!(!noted.contains("home/l"), "{noted}");
    }
}

#[test]
fn authorized_keys_are_read_only_from_files_of_the_account() {
    let Some(place) = ExposedDirectory::new() else { return };
    let home = place.path("home");
    let getent = format!("#!/bin/sh\necho 'mallory:x:65534:65534::{home}:/bin/sh'\n");
    place.write("shim/getent", &getent, 0o755);
    place.write("home/.ssh/authorized_keys", "key of theirs\n", 0o600);
    place.give("home/.ssh/authorized_keys");
    let probe = Probe::AuthorizedKeys { user: "mallory".into() };
    let keys = |shell: &str| match place.ask(shell, std::slice::from_ref(&probe)).get(&probe).cloned() {
        Ok(ProbeReading::AuthorizedKeys(AuthorizedKeysState::Account(info))) => match info.file {
            PathState::Present(file) => Ok((file.sha256, file.body.map(|body| body.raw().to_owned()))),
            PathState::Absent => panic!("absent"),
        },
        Err(unknown) => Err(unknown),
        other => panic!("{other:?}"),
    };
    for shell in SHELLS {
        assert_eq!(keys(shell), Ok((digest("key of theirs\n"), Some("key of theirs\n".to_owned()))), "{shell}");
    }
    std::fs::rename(place.path("home/.ssh"), place.path("home/.away")).expect("moved");
    symlink(place.path("vault/.ssh"), place.path("home/.ssh")).expect("a link");
    let link = place.path("home/.ssh");
    let why = format!("{link} is a symbolic link that user nobody can replace: forge does not follow it");
    for shell in SHELLS {
        assert_eq!(
            keys(shell),
            Err(UnansweredReason { barred: true, ..UnansweredReason::new(why.as_str()) }),
            "{shell}"
        );
    }
    // A directory of root's that the user moved here.
    std::fs::remove_file(&link).expect("removed");
    std::fs::rename(place.path("vault/.ssh"), &link).expect("moved");
    for shell in SHELLS {
        assert_eq!(keys(shell), Ok((digest(SECRET), None)), "{shell}");
    }
}
