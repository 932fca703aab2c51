//! Runs compiled scripts through the shells of this machine and parses their answers.

use super::*;
use crate::model::SecretStore;
use crate::probe::query::AptOfferPolicy;
use crate::probe::{CheckProbe, PathInfo, PathState, PathType, ProbeOutput, ProbeReading, UserState};
use secrecy::ExposeSecret;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod exposed;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const SHELLS: [&str; 2] = ["dash", "bash"];

fn send(shell: &str, script: &ShellScript) -> Vec<u8> {
    send_text(shell, script.render_text(&SecretStore::default()).expect("no NUL").expose_secret())
}

fn send_text(shell: &str, text: &str) -> Vec<u8> {
    let mut child = Command::new(shell)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    let mut stdin = child.stdin.take().expect("is piped");
    stdin.write_all(text.as_bytes()).expect("the shell reads");
    drop(stdin);
    let output = child.wait_with_output().expect("the shell ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{shell} complains");
    output.stdout
}

fn ask(shell: &str, probes: &[Probe]) -> Observation {
    let probes: BTreeSet<Probe> = probes.iter().cloned().collect();
    let compiled = compile_probes(&probes, &[], ScriptToken::new(TOKEN), None);
    let seen = parse_output(&compiled, &send(shell, &compiled.script), None).expect("well-formed");
    assert!(probes.iter().all(|probe| seen.has_answer(probe)), "every probe has an answer");
    seen
}

fn check(id: &str, script: &str) -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: id.into(),
        script: script.into(),
        user: None,
        cwd: None,
        env: vec![],
        timeout_s: Some(20),
    }))
}

fn output(seen: &Observation, probe: &Probe) -> ProbeOutput {
    match seen.get(probe) {
        Ok(ProbeReading::Output(output)) => output.clone(),
        other => panic!("no output but {other:?}"),
    }
}

fn info(seen: &Observation, probe: &Probe) -> PathInfo {
    match seen.get(probe) {
        Ok(ProbeReading::Path(PathState::Present(info))) => PathInfo::clone(info),
        other => panic!("nothing there but {other:?}"),
    }
}

#[test]
fn check_returns_status_stdout_and_stderr_separately() {
    let both = check("both", "echo out; echo err >&2; exit 3");
    let cwd = Probe::Check(Box::new(CheckProbe {
        id: "cwd".into(),
        script: "pwd; echo \"$A\"; id -un; echo \"${FORGE_T-none}\"".into(),
        user: Some("nobody".into()),
        cwd: Some("/usr".into()),
        env: vec![("A".into(), "a 'b' $(c)\nd".into())],
        timeout_s: Some(20),
    }));
    for shell in SHELLS {
        let seen = ask(shell, &[both.clone(), cwd.clone()]);
        let expected = ProbeOutput { status: 3, stdout: "out\n".into(), stderr: "err\n".into(), truncated: false };
        assert_eq!(output(&seen, &both), expected);
        assert_eq!(output(&seen, &cwd).stdout.raw(), "/usr\na 'b' $(c)\nd\nnobody\nnone\n");
    }
}

/// If this machine does not permit namespaces, the check must not have started at all.
#[test]
fn confined_check_can_read_but_not_write() {
    let dir = tempfile::tempdir().expect("a folder");
    let (there, gone) = (dir.path().join("there"), dir.path().join("a % \\ b"));
    std::fs::write(&there, "x").expect("a file");
    let script = format!(
        "cat '{}'; echo y >'{}' || echo kept; mktemp >/dev/null && echo temporary; cat <<end\nhere\nend",
        there.display(),
        gone.display()
    );
    let probe = check("confined", &script);
    let probes = BTreeSet::from([probe.clone()]);
    for shell in SHELLS {
        let checks = ProbeCheckOptions { confined: true, limit: None };
        let compiled = compile_probes(&probes, &[], ScriptToken::new(TOKEN), checks);
        let seen = parse_output(&compiled, &send(shell, &compiled.script), None).expect("well-formed");
        match seen.get(&probe) {
            Ok(ProbeReading::Output(output)) => {
                assert_eq!(output.stdout.raw(), "xkept\ntemporary\nhere\n", "{output:?}")
            }
            Err(unknown) => {
                println!("skipped: namespaces cannot be made here");
                assert!(unknown.why.starts_with("unconfined: "), "{unknown:?}");
            }
            other => panic!("{other:?}"),
        }
        assert!(!gone.exists());
    }
}

#[test]
fn hanging_check_times_out_without_delaying_others() {
    let hang = |script: &str| {
        Probe::Check(Box::new(CheckProbe {
            id: "hang".into(),
            script: script.into(),
            user: None,
            cwd: None,
            env: vec![],
            timeout_s: Some(1),
        }))
    };
    let probes = [
        hang("sleep 100"),
        hang("trap '' TERM; sleep 100 & wait; sleep 100"),
        hang("yes"),
        hang("exec setsid sleep 20"),
        check("ends", "exit 124"),
        check("leaves", "setsid sleep 3 & echo left"),
    ];
    let started = Instant::now();
    let seen = ask("dash", &probes);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    for probe in &probes[..4] {
        assert_eq!(seen.get(probe), Err(UnansweredReason::new("timed out after 1 s")));
    }
    assert_eq!(output(&seen, &probes[4]).status, 124, "its own status is no time-out");
    assert_eq!(output(&seen, &probes[5]).stdout.raw(), "left\n");
}

/// The message of an error is usually at the end.
#[test]
fn long_output_of_a_check_keeps_its_end() {
    let probe = check("long", "head -c 20000 /dev/zero | tr '\\0' x >&2; echo denied >&2; seq 100000; exit 7");
    for shell in SHELLS {
        let seen = ask(shell, std::slice::from_ref(&probe));
        let output = output(&seen, &probe);
        assert_eq!((output.status, output.truncated), (7, true), "{shell}");
        assert!(output.stderr.raw().ends_with("xdenied\n") && output.stdout.raw().ends_with("\n100000\n"), "{shell}");
    }
}

#[test]
fn background_process_truncates_output_but_keeps_exit_code() {
    let probe = Probe::Check(Box::new(CheckProbe {
        id: "daemon".into(),
        script: "echo out; echo err >&2; setsid sleep 30 & exit 3".into(),
        user: None,
        cwd: None,
        env: vec![],
        timeout_s: Some(1),
    }));
    for shell in SHELLS {
        let started = Instant::now();
        let seen = ask(shell, &[probe.clone(), check("other", "true")]);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        let output = output(&seen, &probe);
        assert_eq!((output.status, output.truncated), (3, true));
    }
}

fn part(user: &str, code: &'static str) -> ProbeSection {
    let read = |section: &ProbeSection, raw: &SectionOutput, out: &mut Observation| {
        let why = match raw.is_complete(&[0]) {
            true => UnansweredReason::new(String::from_utf8_lossy(&raw.stdout)),
            false => raw.explain_missing(section),
        };
        section.answer_all_unknown(&why, out);
    };
    let section = ProbeSection::new("the part", vec![Probe::User { name: user.into() }], read);
    ProbeSection { body: crate::script::ShellFragment::new().code(code), timeout_s: 2, cap: 100, ..section }
}

fn asked_together(shell: &str, parts: &[(&str, &'static str)]) -> Vec<String> {
    ask_sections(shell, parts.iter().map(|(user, code)| part(user, code)).collect())
}

fn ask_sections(shell: &str, parts: Vec<ProbeSection>) -> Vec<String> {
    let users: Vec<Probe> = parts.iter().flat_map(|part| part.probes.clone()).collect();
    let sections = super::super::section_group::group_sections(parts, TOKEN);
    let script = shell::build_script(&sections, ScriptToken::new(TOKEN));
    let compiled =
        CompiledProbes { script, device: None, sections, device_sections: vec![], unasked: vec![], keep: false };
    let seen = parse_output(&compiled, &send(shell, &compiled.script), None).expect("well-formed");
    users.iter().map(|user| seen.get(user).expect_err("no reading").why).collect()
}

#[test]
fn sections_in_a_shared_process_fail_independently() {
    let parts = [
        ("a", "printf 'a\\0'"),
        ("b", "need not-a-tool; echo b"),
        ("c", "printf c; exit 7"),
        ("d", "head -c 101 /dev/zero"),
        ("e", "set -f; cd /nowhere; exec printf e"),
    ];
    let hang = [("a", "echo a"), ("b", "echo b; sleep 20"), ("c", "echo c")];
    let flood = [("a", "echo a"), ("b", "head -c 1000000 /dev/urandom"), ("c", "echo c")];
    for shell in SHELLS {
        let failed =
            ["`not-a-tool` is missing", "the part failed with status 7", "the part printed more than 100 bytes"];
        assert_eq!(asked_together(shell, &parts), ["a\0", failed[0], failed[1], failed[2], "e"]);
        assert_eq!(asked_together(shell, &hang), ["a\n", "timed out after 2 s", "timed out after 2 s"]);
        assert_eq!(asked_together(shell, &flood), ["a\n", failed[2], failed[2]]);
    }
}

#[test]
fn plain_section_that_exits_does_not_affect_others() {
    let plain = |user: &str, code: &'static str| ProbeSection { plain: true, ..part(user, code) };
    let sections = || {
        vec![
            plain("a", "cd /usr; set -f; IFS=x; echo a; echo said >&2"),
            plain("b", "need not-a-tool; echo b"),
            plain("c", "printf c; exit 7"),
            part("d", "need not-one-either; echo d"),
            plain("e", "x='1 2'; printf '<%s>' $x; pwd"),
        ]
    };
    for shell in SHELLS {
        let answers = ask_sections(shell, sections());
        let failed = ["`not-a-tool` is missing", "the part failed with status 7", "`not-one-either` is missing"];
        assert_eq!(answers, ["a\n", failed[0], failed[1], failed[2], "<1><2>/\n"], "{shell}");
    }
}

#[test]
fn hanging_section_with_its_own_limit_delays_only_itself() {
    for shell in SHELLS {
        let waits = ProbeSection { waits: true, timeout_s: 1, ..part("b", "need sh; echo b; sleep 20") };
        let quick = ProbeSection { waits: true, ..part("c", "need sh; echo \"${FORGE_S-c} ${FORGE_N-c}\"") };
        let answers = ask_sections(shell, vec![part("a", "echo a"), waits, quick, part("d", "echo d")]);
        assert_eq!(answers, ["a\n", "timed out after 1 s", "c c\n", "d\n"], "{shell}");
    }
}

#[test]
fn apt_is_queried_only_for_packages_that_differ() {
    let package = |name: &str, offers| Probe::Package { name: name.into(), offers };
    let probes = [
        package("bash", AptOfferPolicy::Unneeded),
        package("coreutils", AptOfferPolicy::UnlessInstalled),
        package("dpkg", AptOfferPolicy::UnlessVersion("0".into())),
        package("not-here", AptOfferPolicy::UnlessInstalled),
    ];
    for shell in SHELLS {
        let seen = ask(shell, &probes);
        let state = |probe: &Probe| match seen.get(probe) {
            Ok(ProbeReading::Package(state)) => state.clone(),
            other => panic!("{other:?}"),
        };
        let unknown = probes.each_ref().map(|probe| state(probe).offers_unknown);
        let unasked = Some("apt was not asked".to_owned());
        assert_eq!(unknown, [unasked.clone(), unasked, None, None]);
        let bash = package("bash", AptOfferPolicy::UnlessVersion(state(&probes[0]).version.expect("is installed")));
        let again = ask(shell, std::slice::from_ref(&bash));
        let Ok(ProbeReading::Package(state)) = again.get(&bash) else { panic!("{again:?}") };
        assert!(state.offers_unknown.is_some());
    }
}

#[test]
fn large_binary_or_frame_like_output_stays_in_its_section() {
    let flood = check("flood", "head -c 10000000 /dev/zero | tr '\\0' x; exit 7");
    let loud = check("loud", "head -c 10000000 /dev/zero | tr '\\0' x >&2; exit 7");
    let binary = check("binary", "printf 'a\\000\\377\\r\\n\\033[31m'; printf '\\200' >&2");
    let fake = check("fake", &format!("printf '\\n{TOKEN} 0 4 :0:!\\n{TOKEN} end 1\\n'; echo ':9:!' >&2"));
    for shell in SHELLS {
        let seen = ask(shell, &[flood.clone(), loud.clone(), binary.clone(), fake.clone()]);
        let flood = output(&seen, &flood);
        assert_eq!((flood.status, flood.truncated, flood.stdout.raw().len()), (7, true, 262_144));
        let loud = output(&seen, &loud);
        assert_eq!((loud.status, loud.truncated, loud.stderr.raw().len()), (7, true, 16_384));
        assert_eq!(output(&seen, &binary).stdout.raw(), "a\0\u{fffd}\r\n\u{1b}[31m");
        assert_eq!(output(&seen, &fake).stdout.raw(), format!("\n{TOKEN} 0 4 :0:!\n{TOKEN} end 1\n"));
    }
}

#[test]
fn check_that_cannot_start_gives_the_reason() {
    let user = |user: &str, cwd: &str| {
        Probe::Check(Box::new(CheckProbe {
            id: "x".into(),
            script: "true".into(),
            user: Some(user.into()),
            cwd: Some(cwd.into()),
            env: vec![],
            timeout_s: Some(5),
        }))
    };
    let probes = [user("nobody-here", "/"), user("nobody", "/nowhere")];
    let seen = ask("dash", &probes);
    assert_eq!(seen.get(&probes[0]), Err(UnansweredReason::new("user `nobody-here` does not exist")));
    let why = seen.get(&probes[1]).expect_err("no such folder");
    assert_eq!(why.why, "the check could not be started");
    assert!(why.said.expect("said").raw().contains("/nowhere"));
}

#[test]
fn paths_with_special_characters_are_observed_in_full() {
    let dir = tempfile::tempdir().expect("a folder");
    let names =
        ["plain", "a b", "q'uote", "li\nne", "back\\slash", "$(touch x)", "\u{202e}bidi", "\u{441}\u{1b}[1m", "-n"];
    let path = |name: &str| format!("{}/{name}", dir.path().display());
    let mut probes = Vec::new();
    for name in names {
        std::fs::write(path(name), format!("body of {name}")).expect("written");
        std::os::unix::fs::symlink(path(name), path(&format!("{name}.link -> x"))).expect("linked");
        probes.push(Probe::Path { path: path(name), want: Some("0".repeat(64)) });
        probes.push(Probe::Path { path: path(&format!("{name}.link -> x")), want: None });
        probes.push(Probe::Path { path: path(&format!("{name}/below")), want: None });
        probes.push(Probe::Path { path: path(&format!("{name}.not")), want: None });
    }
    for shell in SHELLS {
        let seen = ask(shell, &probes);
        for (name, group) in names.iter().zip(probes.chunks(4)) {
            let file = info(&seen, &group[0]);
            assert_eq!((file.kind, file.size), (PathType::File, 8 + name.len() as u64));
            assert_eq!(
                file.body.as_ref().map(|b| b.raw().to_owned()),
                Some(format!("body of {name}")),
                "{shell} {name:?}"
            );
            assert_eq!(file.sha256.as_deref().map(str::len), Some(64), "{shell} {name:?}");
            assert_eq!(info(&seen, &group[1]).target.expect("a link").raw(), path(name));
            assert_eq!(seen.get(&group[2]), Ok(&ProbeReading::Path(PathState::Absent)), "{name:?}");
            assert_eq!(seen.get(&group[3]), Ok(&ProbeReading::Path(PathState::Absent)), "{name:?}");
        }
        let first = names.map(|n| info(&seen, &Probe::Path { path: path(n), want: Some("0".repeat(64)) }).sha256);
        let wants = names.iter().zip(first).map(|(n, sum)| Probe::Path { path: path(n), want: sum });
        let wants: Vec<Probe> = wants.collect();
        let again = ask(shell, &wants);
        assert!(wants.iter().all(|probe| info(&again, probe).body.is_none()), "a matching body is not sent");
    }
}

#[test]
fn only_small_text_files_are_returned_with_a_body() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| format!("{}/{name}", dir.path().display());
    let bodies: [(&str, Vec<u8>, bool); 5] = [
        ("edge", vec![b'x'; 65_536], true),
        ("over", vec![b'x'; 65_537], false),
        ("nul", b"a\0b".to_vec(), false),
        ("latin", b"\xe9".to_vec(), false),
        ("empty", vec![], true),
    ];
    let probe = |name: &str| Probe::Path { path: path(name), want: Some("f".repeat(64)) };
    for (name, body, _) in &bodies {
        std::fs::write(path(name), body).expect("written");
    }
    let seen = ask("dash", &bodies.iter().map(|(name, ..)| probe(name)).collect::<Vec<_>>());
    for (name, _, shown) in &bodies {
        assert_eq!(info(&seen, &probe(name)).body.is_some(), *shown, "{name}");
    }
}

#[test]
fn paths_beyond_the_argument_limit_are_split() {
    let probes: Vec<Probe> =
        (0..3000).map(|n| Probe::Path { path: format!("/nowhere/{}/{n}", "x'y".repeat(20)), want: None }).collect();
    for shell in SHELLS {
        let seen = ask(shell, &probes);
        assert!(probes.iter().all(|probe| seen.get(probe) == Ok(&ProbeReading::Path(PathState::Absent))));
    }
}

#[test]
fn invalid_probe_is_answered_with_the_reason() {
    let probes = [
        Probe::Path { path: "/a\0b".into(), want: None },
        Probe::Package { name: "lib*".into(), offers: AptOfferPolicy::UnlessInstalled },
        Probe::Unit { name: "getty@.service".into() },
        Probe::User { name: "0".into() },
        Probe::Fact { name: "moon".into() },
        check("nul", "echo \0"),
    ];
    let seen = ask("dash", &probes);
    let why = probes.each_ref().map(|probe| seen.get(probe).expect_err("cannot be asked").why);
    assert_eq!(
        why,
        [
            "the path contains a NUL byte",
            "is not a package name",
            "is a template: a unit needs a name after `@`",
            "is not a user name",
            "is not a fact that forge knows",
            "the check contains a NUL byte",
        ]
    );
}

#[test]
fn missing_user_is_distinguished_from_existing_users() {
    let probes = ["root", "nobody", "not-here"].map(|name| Probe::User { name: name.into() });
    for shell in SHELLS {
        let seen = ask(shell, &probes);
        let Ok(ProbeReading::User(UserState::Present(root))) = seen.get(&probes[0]) else { panic!("{seen:?}") };
        assert_eq!((root.uid, root.gid, root.group.as_str(), root.home.as_str()), (0, 0, "root", "/root"));
        assert!(matches!(seen.get(&probes[1]), Ok(ProbeReading::User(UserState::Present(_)))));
        assert_eq!(seen.get(&probes[2]), Ok(&ProbeReading::User(UserState::Absent)));
    }
}

fn snapshot(folder: &str) -> Vec<(std::ffi::OsString, std::time::SystemTime)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok())
        .filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.modified().ok()?)))
        .filter(|(name, _)| !name.as_bytes().starts_with(b"lock"))
        .collect();
    files.sort();
    files
}

#[test]
fn observation_of_twenty_resources_is_fast_and_read_only() {
    let mut probes = vec![Probe::PackageManager, Probe::Records];
    probes.extend(
        ["bash", "coreutils", "not-here"]
            .map(|name| Probe::Package { name: name.into(), offers: AptOfferPolicy::UnlessInstalled }),
    );
    probes.extend(["ssh.service", "cron.service"].map(|name| Probe::Unit { name: name.into() }));
    probes.extend(["root", "nobody", "daemon"].map(|name| Probe::User { name: name.into() }));
    probes.extend((0..10).map(|n| Probe::Path {
        path: format!("/etc/{}", if n % 2 == 0 { "passwd" } else { "group" }),
        want: Some(format!("{n:064}")),
    }));
    let before = [snapshot("/var/cache/apt"), snapshot("/var/lib/apt/lists")];
    let apt_aside: Vec<Probe> = probes.iter().filter(|p| !matches!(p, Probe::Package { .. })).cloned().collect();
    // On a busy machine a measured time includes waits for a processor: one observation within the limit proves the
    // cost.
    let mut times = (0..25).map(|_| {
        let started = Instant::now();
        ask("dash", &apt_aside);
        started.elapsed()
    });
    let quick = times.find(|time| *time < Duration::from_millis(400));
    ask("dash", &probes);
    assert_eq!(before, [snapshot("/var/cache/apt"), snapshot("/var/lib/apt/lists")]);
    assert!(quick.is_some(), "25 observations took 400 ms or more each; an idle machine takes 100 ms");
}
