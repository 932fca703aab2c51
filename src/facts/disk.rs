//! `disk`: free space on the filesystems that provisioning fills.

use super::comparison_rules::compare_each;
use super::fact::{Fact, FactShape};
use super::snippet_output::unparsed_answer;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};

pub(super) const FACT: Fact = Fact {
    name: "disk",
    doc: "Free space below `/`, `/boot`, `/var` and `/tmp`: a map from each of these paths that exists, from `df`.",
    shape: FactShape::ByName,
    fields: &[
        ("available", "bytes that an unprivileged user can still write there"),
        ("total", "size of its filesystem, in bytes"),
    ],
    reads: &["df -B1 --output=avail,size,file / /boot /var /tmp"],
    alike: &[compare_each("", "", &["total"])],
    snippet: FactSnippet {
        name: "disk",
        snippet: "need df; df -B1 --output=avail,size,file / /boot /var /tmp",
        timeout_s: 10,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

/// A missing path has no line and makes `df` exit with 1; `/` always exists.
fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let rows: Map<String, Value> = output.stdout.raw().lines().filter_map(parse_row).collect();
    match rows.contains_key("/") {
        true => Ok(Value::Object(rows)),
        false => Err(unparsed_answer("`/`", output)),
    }
}

fn parse_row(line: &str) -> Option<(String, Value)> {
    let mut words = line.split_whitespace();
    let (available, total): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((words.next()?.to_owned(), json!({ "available": available, "total": total })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn disk_space_is_parsed_per_path() {
        // origin: field, Debian 12
        let text = "     Avail  1B-blocks File\n 515944448  536870912 /\n2527440896 2527653888 /tmp\n";
        let expected = json!({"/": {"available": 515_944_448, "total": 536_870_912},
                              "/tmp": {"available": 2_527_440_896u64, "total": 2_527_653_888u64}});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(expect_unknown(&FACT, 1, "Avail\n"), "`/` is not in the answer");
    }
}
