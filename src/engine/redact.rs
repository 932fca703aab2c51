//! Redacts machine ids, UUIDs and serial numbers of a recording: replaces them by numbers of the same form.
//!
//! The same identifier gets the same number everywhere in a recording, so that values common to hosts stay recognizable
//! and the recording gives the same plan. Numbers are sequential: a digest of a short serial number could be reversed
//! by brute force. An identifier that is declared or part of a probe is kept: otherwise the recording would not fit the
//! declaration.

use super::recording::Recording;
use crate::facts::Facts;
use crate::model::Value;
use regex::{Captures, Regex};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// UUIDs, also with `_` as in cgroup names, and serial numbers of PCI devices (`b8-ce-f6-03-00-1a-2b-3c`).
const UUID_PATTERN: &str =
    r"(?i)[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|\b[0-9a-f]{2}(?:-[0-9a-f]{2}){7}\b";

/// `Serial Number : 1654922003536`, `[SN] Serial number: MT2008X12345`, `"serial": "…"`, `<serial>…</serial>`.
const SERIAL_PATTERN: &str =
    r#"(?i)\bserial(?:[ _-]?(?:number|num|no))?\.?"?\s*[:=>]\s*"?([a-z0-9._/-]+)|\bS/N\s*[:=]\s*([a-z0-9._/-]+)"#;

const WORD_PATTERN: &str = "[A-Za-z0-9]+";

/// Words that form one serial number: `0324-1180-7734`.
const COMPOUND_PATTERN: &str = "[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)+";

/// Compounds with fewer digits are names and versions.
const FEWEST_DIGITS: usize = 5;

/// Shorter serial numbers would collide with too many other words.
const SHORTEST_SERIAL: usize = 7;

/// The namespace of UEFI's own variables: a constant suffix of their file names.
const EFI_VARIABLES: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";

impl Recording {
    /// Replaces machine ids, UUIDs and serial numbers. `facts` are those of the recording's hosts, `declared` all texts
    /// of the user.
    ///
    /// # Errors
    /// One of forge's own patterns is invalid.
    pub fn redact_identifiers<'f>(
        mut self,
        facts: impl Iterator<Item = &'f Facts>,
        declared: &[String],
    ) -> Result<Self, regex::Error> {
        let forms = IdentifierPatterns {
            uuids: Regex::new(UUID_PATTERN)?,
            serials: Regex::new(SERIAL_PATTERN)?,
            words: Regex::new(WORD_PATTERN)?,
            compounds: Regex::new(COMPOUND_PATTERN)?,
        };
        let known = forms.collect_known_words(declared.iter().cloned().chain(self.collect_probe_texts()));
        let found = RefCell::new(FoundIdentifiers::default());
        facts.filter_map(read_machine_id).for_each(|id| found.borrow_mut().number_unless_known(id, &known));
        let collect = |text: &str| {
            forms.collect_identifiers(text, &known, &mut found.borrow_mut());
            text.to_owned()
        };
        self.rewrite_texts(&collect);
        let found = found.into_inner();
        self.rewrite_texts(&|text| forms.replace_identifiers(text, &found));
        Ok(self)
    }

    fn collect_probe_texts(&self) -> BTreeSet<String> {
        let probes = self.hosts.iter().flat_map(|host| &host.answers).flat_map(|exchange| &exchange.probes);
        let texts = probes.filter_map(|probe| serde_json::to_string(probe).ok());
        // In JSON, `\n` and `\t` end in a letter that is not part of the next word.
        texts.map(|text| text.replace("\\n", " ").replace("\\t", " ")).collect()
    }

    fn rewrite_texts(&mut self, change: &dyn Fn(&str) -> String) {
        for exchange in self.hosts.iter_mut().flat_map(|host| &mut host.answers) {
            exchange.remove_secrets(change);
        }
    }
}

fn read_machine_id(facts: &Facts) -> Option<&str> {
    let id = facts.0.get("identity")?.as_ref().ok()?.get("machine_id").and_then(Value::as_str)?;
    (id.len() == 32).then_some(id)
}

/// Identifiers with their numbers, in the order in which they were found.
#[derive(Debug, Default)]
struct FoundIdentifiers(BTreeMap<String, usize>);

impl FoundIdentifiers {
    fn number_unless_known(&mut self, identifier: &str, known: &BTreeSet<String>) {
        let plain = normalize_identifier(identifier);
        if !self.0.contains_key(&plain) && !known.contains(&plain) {
            let number = self.0.len() + 1;
            self.0.insert(plain, number);
        }
    }

    /// Returns the replacement of an identifier, or the identifier itself if it is kept.
    fn replacement_for(&self, identifier: &str) -> String {
        self.0
            .get(&normalize_identifier(identifier))
            .map_or_else(|| identifier.to_owned(), |number| format_number_like(identifier, *number))
    }
}

/// Normalizes the spellings of an identifier.
fn normalize_identifier(identifier: &str) -> String {
    identifier.to_ascii_lowercase().replace('_', "-")
}

/// Returns `number` in the form of `identifier`: `0000-01` for 1 and `ab12-cd`.
fn format_number_like(identifier: &str, mut number: usize) -> String {
    let mut form: Vec<char> = identifier.chars().collect();
    for place in form.iter_mut().rev().filter(|place| place.is_ascii_alphanumeric()) {
        *place = char::from(b'0' + (number % 10) as u8);
        number /= 10;
    }
    form.into_iter().collect()
}

struct IdentifierPatterns {
    uuids: Regex,
    serials: Regex,
    words: Regex,
    compounds: Regex,
}

impl IdentifierPatterns {
    /// Returns the words and UUIDs of texts that must be kept, as spelled by [`normalize_identifier`].
    fn collect_known_words(&self, texts: impl Iterator<Item = String>) -> BTreeSet<String> {
        let mut known = BTreeSet::new();
        for text in texts {
            let words = self.words.find_iter(&text).chain(self.compounds.find_iter(&text));
            let all = self.uuids.find_iter(&text).chain(words);
            known.extend(all.filter(|one| one.len() >= SHORTEST_SERIAL).map(|one| normalize_identifier(one.as_str())));
        }
        known
    }

    fn collect_identifiers(&self, text: &str, known: &BTreeSet<String>, found: &mut FoundIdentifiers) {
        for uuid in self.uuids.find_iter(text).map(|uuid| uuid.as_str()) {
            let says_nothing = uuid.chars().all(|c| matches!(c, '0' | '-' | '_'));
            if !says_nothing && normalize_identifier(uuid) != EFI_VARIABLES {
                found.number_unless_known(uuid, known);
            }
        }
        for serial in self.serials.captures_iter(text).filter_map(|all| all.get(1).or_else(|| all.get(2))) {
            let is_serial = |word: &str| word.len() >= SHORTEST_SERIAL && word.contains(|c: char| c.is_ascii_digit());
            let words = self.words.find_iter(serial.as_str()).map(|word| word.as_str());
            let mut serials: Vec<&str> = words.filter(|word| is_serial(word)).collect();
            if serials.is_empty() {
                let digits = |compound: &str| compound.chars().filter(char::is_ascii_digit).count();
                let compounds = self.compounds.find_iter(serial.as_str()).map(|compound| compound.as_str());
                serials.extend(compounds.filter(|compound| digits(compound) >= FEWEST_DIGITS));
            }
            serials.into_iter().for_each(|serial| found.number_unless_known(serial, known));
        }
    }

    fn replace_identifiers(&self, text: &str, found: &FoundIdentifiers) -> String {
        let stand_in = |all: &Captures<'_>| found.replacement_for(&all[0]);
        let text = self.uuids.replace_all(text, stand_in);
        let text = self.compounds.replace_all(&text, stand_in);
        self.words.replace_all(&text, stand_in).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Serial Number : 1654922003536\nGPU UUID : GPU-806f8ea2-6428-1096-a076-bb687fb45fb0\n\
        id\t806F8EA2-6428-1096-A076-BB687FB45FB0\n/kubepods-pod12345678_1234_1234_1234_123456789abc.slice\n\
        [SN] Serial number: MT2008X12345\nDevice Serial Number b8-ce-f6-03-00-1a-2b-3c\n1654922003536, 11654922003536\n\
        /boot/3d1219c7c4c5404aaa1f6d2a48adfda4/6.1\nserial: none\nserial=115200\nSecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c\n\
        UUID=2a7c11f0-7f0e-4a6f-9d6f-6d2f3c1b9a55 /data\n00000000-0000-0000-0000-000000000000\n{\"serial\": \"S4EVNX0M\"}\n\
        S/N: 0324-1180-7734\nserial: /dev/ttyS0, 115200-8n1";

    const REDACTED: &str = "Serial Number : 0000000000005\nGPU UUID : GPU-00000000-0000-0000-0000-000000000002\n\
        id\t00000000-0000-0000-0000-000000000002\n/kubepods-pod00000000_0000_0000_0000_000000000003.slice\n\
        [SN] Serial number: 000000000006\nDevice Serial Number 00-00-00-00-00-00-00-04\n0000000000005, 11654922003536\n\
        /boot/00000000000000000000000000000001/6.1\nserial: none\nserial=115200\nSecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c\n\
        UUID=2a7c11f0-7f0e-4a6f-9d6f-6d2f3c1b9a55 /data\n00000000-0000-0000-0000-000000000000\n{\"serial\": \"00000007\"}\n\
        S/N: 0000-0000-0008\nserial: /dev/ttyS0, 115200-8n1";

    /// Builds a recording of hosts that all printed the same text for a check.
    fn recording_of(hosts: &[&str], printed: &str) -> Recording {
        let host = |name: &&str| {
            serde_json::json!({ "host": name, "reach": "observed", "answers": [{
                "asked": "check", "limit_s": 5, "probes": [{ "check": { "id": "a", "script": "true", "user": null, "cwd": null, "env": [], "timeout_s": null } }],
                "answer": { "printed": { "end": { "exited": 0 }, "began": true, "stdout": { "text": printed }, "stderr": { "text": "" }, "truncated": false } },
            }] })
        };
        let hosts: Vec<_> = hosts.iter().map(host).collect();
        let text = serde_json::json!({ "version": 1, "forge": "", "origin": "field", "hosts": hosts });
        Recording::parse(&text.to_string()).unwrap()
    }

    fn facts_with_machine_id() -> Facts {
        let identity = serde_json::json!({ "machine_id": "3d1219c7c4c5404aaa1f6d2a48adfda4" });
        Facts([("identity".to_owned(), Ok(identity))].into())
    }

    #[test]
    fn redaction_numbers_identifiers_and_keeps_declared_ones() {
        let declared = ["mount: { device: UUID=2A7C11F0-7f0e-4a6f-9d6f-6d2f3c1b9a55 }".to_owned()];
        let redacted = recording_of(&["a", "b"], PRINTED)
            .redact_identifiers([&facts_with_machine_id()].into_iter(), &declared)
            .unwrap();
        assert_eq!(redacted, recording_of(&["a", "b"], REDACTED));
    }

    #[test]
    fn redaction_keeps_identifiers_named_in_probes() {
        let mut asked = recording_of(&["a"], "806f8ea2-6428-1096-a076-bb687fb45fb0");
        let text = serde_json::to_string(&asked.hosts[0].answers[0].probes[0]).unwrap();
        let text = text.replace("true", "nvidia-smi -i GPU-806f8ea2-6428-1096-a076-bb687fb45fb0");
        asked.hosts[0].answers[0].probes[0] = serde_json::from_str(&text).unwrap();
        assert_eq!(asked.clone().redact_identifiers(std::iter::empty(), &[]).unwrap(), asked);
    }
}
