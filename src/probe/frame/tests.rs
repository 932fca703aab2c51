//! Frames as text: truncation, noise and forgery.

use super::*;
use crate::probe::query::AptOfferPolicy;
use crate::probe::{CheckProbe, ProbeOutput, ProbeReading};
use proptest::prelude::*;

const T: &str = "0123456789abcdef0123456789abcdef";

fn check(id: &str) -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: id.into(),
        script: "true".into(),
        user: None,
        cwd: None,
        env: vec![],
        timeout_s: Some(5),
    }))
}

fn compiled(probes: &[Probe], facts: &[FactSnippet]) -> CompiledProbes {
    compile_probes(&probes.iter().cloned().collect(), facts, ScriptToken::new(T), None)
}

fn frame(number: usize, payload: &str) -> String {
    format!("{T} {number} {} {payload}\n", payload.len())
}

/// `out` in base64 with the marks that a check leaves, and two lines of stderr.
const OK: &str = ":began:b3:done::0:V0!er\nr";

fn two() -> (CompiledProbes, String) {
    (compiled(&[check("a"), check("b")], &[]), format!("\n{}{}{T} end 2\n", frame(1, OK), frame(0, OK)))
}

#[test]
fn frames_are_parsed_in_any_order_and_after_login_noise() {
    let (compiled, out) = two();
    let noisy = format!("Welcome to h100\n{T}\nlast login{out}");
    for out in [out, noisy] {
        let seen = parse_output(&compiled, out.as_bytes(), None).expect("well-formed");
        let expected = ProbeOutput { status: 0, stdout: "out".into(), stderr: "er\nr".into(), truncated: false };
        assert_eq!(seen.get(&check("a")), Ok(&ProbeReading::Output(expected)));
        assert!(seen.has_answer(&check("b")));
    }
}

#[test]
fn truncated_output_is_a_lost_connection() {
    let (compiled, out) = two();
    for end in 0..out.len() {
        assert_eq!(parse_output(&compiled, &out.as_bytes()[..end], None), Err(FrameError::Cut), "at {end}");
    }
}

#[test]
fn foreign_or_invalid_frames_are_malformed() {
    let (compiled, _) = two();
    let malformed = |out: String| match parse_output(&compiled, format!("{out}{T} end 2\n").as_bytes(), None) {
        Err(FrameError::Malformed(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(malformed(format!("{}noise\n{}", frame(0, OK), frame(1, OK))), "text between frames");
    assert_eq!(malformed(frame(7, OK)), "section 7 was not requested");
    assert_eq!(malformed(frame(0, OK)), "received 1 of 2 sections");
    assert_eq!(malformed(frame(0, OK).repeat(2)), "duplicate section 0");
    assert_eq!(malformed(frame(0, "!")), "section 0 cannot be decoded");
    assert_eq!(malformed(frame(0, ":0:?!")), "section 0 cannot be decoded");
    assert_eq!(malformed(format!("{T} 0 3 {OK}\n")), "section 0 has 23 bytes but declares `3`");
    assert_eq!(malformed(format!("{T} x 3 abc\n")), "frame without a number");
}

/// The output of the first section is between two lines, with its status and stderr after a third.
#[test]
fn first_section_is_read_from_between_its_lines() {
    let snippet =
        |name| FactSnippet { name, snippet: "true", timeout_s: 9, device: false, quick: false, builtin: false };
    let fact = Probe::Fact { name: "os".into() };
    let compiled = compiled(&[fact.clone(), check("a")], &[snippet("os")]);
    assert_eq!(compiled.sections.len(), 2);
    let open = |text: &str| format!("{T} 0 open\n{text}\n{T} shut\n");
    let answer = |text: &str| {
        let out = format!("noise\n{}{}{T} end 2\n", open(text), frame(1, OK));
        parse_output(&compiled, out.as_bytes(), None).map(|seen| seen.get(&fact).cloned())
    };
    let known = |status, stdout: &str, stderr: &str| {
        Ok(Ok(ProbeReading::Output(ProbeOutput {
            status,
            stdout: stdout.into(),
            stderr: stderr.into(),
            truncated: false,
        })))
    };
    assert_eq!(answer(&format!("out\0\n{T} 0\nx\n{T} !3\nsaid\n")), known(3, &format!("out\0\n{T} 0\nx"), "said\n"));
    assert_eq!(answer(&format!("\n{T} !124\n")), Ok(Err(UnansweredReason::new("timed out after 9 s"))));
    let long = answer(&format!("{}\n{T} !0\n", "x".repeat(1 << 20 | 1)));
    assert_eq!(long, Ok(Err(UnansweredReason::new("the snippet printed more than 1048576 bytes"))));
    let missing = FrameError::Malformed("received 1 of 2 sections".into());
    assert_eq!(answer("no status"), Err(missing));
    let unshut = format!("\n{T} 0 open\nout\n{T} !0\n\n{}{T} end 2\n", frame(1, OK));
    assert_eq!(
        parse_output(&compiled, unshut.as_bytes(), None).err(),
        Some(FrameError::Malformed("received 0 of 2 sections".into()))
    );
}

#[test]
fn missing_frame_tool_is_reported_for_every_probe() {
    let (compiled, _) = two();
    let out = format!("\n{T} lacks base64\n{T} end 0\n");
    let seen = parse_output(&compiled, out.as_bytes(), None).expect("well-formed");
    assert_eq!(seen.get(&check("b")), Err(UnansweredReason::missing_tool("base64")));
}

#[test]
fn hanging_device_channel_does_not_affect_the_first() {
    let snippet =
        |name, device| FactSnippet { name, snippet: "true", timeout_s: 9, device, quick: false, builtin: false };
    let facts = [snippet("gpus", true), snippet("links", true), snippet("os", false)];
    let fact = |name: &str| Probe::Fact { name: name.into() };
    let compiled = compiled(&[fact("gpus"), fact("links"), fact("os")], &facts);
    assert!(compiled.device.is_some());
    let quick = format!("\n{}{T} end 1\n", frame(0, OK));
    let late = UnansweredReason::new("timed out after 9 s");
    let device = format!("\n{}{T} 1 2", frame(0, OK));
    for (device, known) in [(None, false), (Some(&b""[..]), false), (Some(device.as_bytes()), true)] {
        let seen = parse_output(&compiled, quick.as_bytes(), device).expect("the first is whole");
        assert!(seen.get(&fact("os")).is_ok());
        assert_eq!(seen.get(&fact("gpus")).is_ok(), known, "answers before the hang are kept");
        let silent = UnansweredReason::new("the second channel did not answer");
        assert_eq!(seen.get(&fact("links")), Err(if device.is_some() { late.clone() } else { silent }));
    }
}

#[test]
fn empty_probe_set_compiles_to_a_script() {
    let compiled = compiled(&[], &[]);
    assert!(compiled.device.is_none());
    assert_eq!(parse_output(&compiled, format!("\n{T} end 0\n").as_bytes(), None), Ok(Observation::default()));
}

#[test]
fn script_timeout_covers_its_slowest_lane() {
    let probes: Vec<Probe> = (0..5).map(|n| check(&n.to_string())).collect();
    assert_eq!(compiled(&probes, &[]).script.limit.as_secs(), 2 * (5 + 4) + 15);
}

fn every_family() -> Vec<Probe> {
    vec![
        Probe::Path { path: "/a".into(), want: Some("0".into()) },
        Probe::Package { name: "bash".into(), offers: AptOfferPolicy::UnlessInstalled },
        Probe::PackageManager,
        Probe::Unit { name: "ssh".into() },
        Probe::User { name: "root".into() },
        Probe::Records,
        check("a"),
        Probe::Fact { name: "quick".into() },
        Probe::Fact { name: "slow".into() },
    ]
}

fn facts() -> [FactSnippet; 2] {
    let snippet =
        |name, quick| FactSnippet { name, snippet: "true", timeout_s: 9, device: false, quick, builtin: false };
    [snippet("quick", true), snippet("slow", false)]
}

/// Pieces of text that look like the snippets' output.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "errors\0",
        "sums\0",
        "body\0",
        "/a\0",
        "/a -> \0",
        "81a4\0",
        "-\0",
        "\0",
        "\n",
        "\\",
        ": ",
        "passwd\0",
        "groups\0",
        "shadow\0",
        "root\0",
        "root:x:0:0::/:/sh",
        "key\0",
        "units\0",
        "record\0",
        "lines\0",
        "./a.json\0",
        "Id=ssh.service\n",
        "LoadState=x\n",
        "ActiveState=y\nMainPID=1\n",
        "\nforge-maps\n",
        "/proc/1/maps:a b c d e /usr/x (deleted)\n",
        "forge-end\n",
        "holder\0",
        "packages\0",
        "bash\tamd64\tinstall\tinstalled\t1\n",
        "bash:\n",
        "  Candidate: 1\n",
        "     1 500\n",
        "        500 x\n",
        "amd64\n",
        "quick\0",
        "2\0",
        "ActiveEnterTimestamp=Sat 9999-99-99 1:1:1 UTC\n",
    ];
    let piece = prop_oneof![8 => prop::sample::select(known.to_vec()).prop_map(|p| p.as_bytes().to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..8)];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn frame_parser_does_not_panic_on_any_bytes(noise in prop::collection::vec(any::<u8>(), 0..400), first in any::<bool>()) {
        let (compiled, out) = two();
        let mixed = if first { [&noise[..], out.as_bytes()].concat() } else { [out.as_bytes(), &noise].concat() };
        let _ = parse_output(&compiled, &noise, Some(&noise));
        let _ = parse_output(&compiled, &mixed, Some(&mixed));
    }

    #[test]
    fn section_parsers_do_not_panic_on_any_output(stdout in pieces(), stderr in pieces(), status in 0i32..256) {
        let compiled = compiled(&every_family(), &facts());
        let engine = base64::engine::general_purpose::STANDARD;
        let payload = [format!("{}:{status}:!", engine.encode(&stdout)).as_bytes(), &stderr].concat();
        let frame = |n: usize| [format!("{T} {n} {} ", payload.len()).as_bytes(), &payload, b"\n"].concat();
        let frames = (0..compiled.sections.len()).flat_map(frame);
        let end = format!("{T} end {}\n", compiled.sections.len());
        let out: Vec<u8> = frames.chain(end.bytes()).collect();
        let seen = parse_output(&compiled, &out, None).expect("the frames are whole");
        prop_assert!(every_family().iter().all(|probe| seen.has_answer(probe)));
    }
}
