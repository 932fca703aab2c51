//! Keys on the host: their bytes, so that a fingerprint can be computed without any tool on the host.

use super::query::Probe;
use super::section::{NulFields, ProbeSection, SectionOutput};
use super::{KeyFileState, Observation, ProbeReading};
use base64::Engine as _;

/// Maximum bytes read of a key. The code contains this number plus one.
const KEY_CAP: usize = 262_144;

const SNIPPET: &str = r#"need head; need base64
forge_keys() {
for f; do
printf '%s\0' "$f"
if [ -f "$f" ]; then b=$(head -c 262145 -- "$f" | base64 -w0) && printf 'key\0%s\0' "$b"
elif [ -e "$f" ] || [ -L "$f" ]; then printf 'other\0\0'
else printf 'absent\0\0'; fi
done
}
forge_keys"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("the key", probes, read_answers);
    section.cap = (KEY_CAP as u64 * 2) * section.probes.len() as u64;
    section.body =
        section.probes.iter().filter_map(key_path).fold(section.body.code(SNIPPET), |body, path| body.word(path));
    (!section.probes.is_empty()).then_some(section)
}

fn key_path(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Key { path } => Some(path),
        _ => None,
    }
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let mut fields = NulFields::new(&raw.stdout);
    for probe in &section.probes {
        let row = fields.next_row::<3>().filter(|[name, _, _]| key_path(probe).map(str::as_bytes) == Some(*name));
        let state = row.and_then(|[_, tag, body]| parse_key_state(tag, body)).map(ProbeReading::Key);
        out.insert(probe.clone(), state.ok_or_else(|| raw.explain_missing(section)));
    }
}

fn parse_key_state(tag: &[u8], body: &[u8]) -> Option<KeyFileState> {
    match tag {
        b"absent" => Some(KeyFileState::Absent),
        b"other" => Some(KeyFileState::Unfit),
        b"key" => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(body).ok()?;
            Some(if bytes.len() > KEY_CAP { KeyFileState::Unfit } else { KeyFileState::Present(bytes) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed};

    #[test]
    fn key_is_decoded_and_truncated_answer_is_unknown() {
        let one = |stdout: &str| {
            let probe = Probe::Key { path: "/k".into() };
            answers(&build_section(vec![probe.clone()]).expect("a section"), &printed(stdout)).get(&probe).cloned()
        };
        assert_eq!(one("/k\0key\0AP8=\0"), Ok(ProbeReading::Key(KeyFileState::Present(vec![0, 255]))));
        assert_eq!(one("/k\0absent\0\0"), Ok(ProbeReading::Key(KeyFileState::Absent)));
        assert_eq!(one("/k\0other\0\0"), Ok(ProbeReading::Key(KeyFileState::Unfit)));
        assert_eq!(one("/k\0key\0AP8").unwrap_err().why, "the key returned no answer");
    }
}
