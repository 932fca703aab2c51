//! `services`: the units of the GPU and RDMA stacks.

use super::comparison_rules::compare_each;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, text_or_null, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};

const SNIPPET: &str = "need systemctl\nsystemctl show -p Id,Names,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,MainPID,LimitMEMLOCK \
    nvidia-persistenced.service nvidia-fabricmanager.service nvidia-imex.service nvidia-dcgm.service dcgm.service openibd.service \
    opensm.service opensmd.service ibacm.service ibacm.socket lldpad.service containerd.service kubelet.service slurmd.service";

pub(super) const FACT: Fact = Fact {
    name: "services",
    doc: "The units that the GPU and RDMA stacks install or depend on, a map by name (without `.service`), from one `systemctl show`: \
          `nvidia-persistenced`, `nvidia-fabricmanager`, `nvidia-imex`, `nvidia-dcgm`, `dcgm`, `openibd`, `opensm`, `opensmd`, `ibacm`, \
          `ibacm.socket`, `lldpad`, `containerd`, `kubelet`, `slurmd`.",
    shape: FactShape::ByName,
    fields: &[
        ("exists", "whether systemd knows the unit"),
        ("active", "`active`, `inactive`, `failed` …"),
        ("sub", "`running`, `exited`, `dead` …"),
        ("enabled", "`enabled`, `disabled`, `masked`, `static` …; null without a unit file"),
        ("needs_reload", "whether its file changed since systemd read it"),
        ("pid", "its main process, null without one"),
        ("memlock", "configured limit of bytes that its processes may lock, as text: `infinity` for no limit"),
    ],
    reads: &[
        "systemctl show -p Id,Names,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,MainPID,LimitMEMLOCK UNIT…",
    ],
    alike: &[compare_each("", "", &["exists", "active", "sub", "enabled", "needs_reload", "memlock"])],
    snippet: FactSnippet {
        name: "services",
        snippet: SNIPPET,
        timeout_s: 15,
        device: false,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let units: Map<String, Value> = require_success(output)?.split("\n\n").filter_map(parse_unit).flatten().collect();
    match units.is_empty() {
        true => Err(unparsed_answer("a unit", output)),
        false => Ok(Value::Object(units)),
    }
}

/// Parses one block and returns it under each of the unit's names: aliases are queried as well.
fn parse_unit(block: &str) -> Option<Vec<(String, Value)>> {
    let value = |key: &str| block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let names = value("Names").filter(|names| !names.is_empty()).or(value("Id"))?;
    let load = value("LoadState")?;
    let state = json!({
        "exists": !matches!(load, "not-found"),
        "active": text_or_null(value("ActiveState")),
        "sub": text_or_null(value("SubState")),
        "enabled": text_or_null(value("UnitFileState").or((load == "masked").then_some("masked"))),
        "needs_reload": value("NeedDaemonReload") == Some("yes"),
        "pid": value("MainPID").and_then(|pid| pid.parse::<u64>().ok()).filter(|pid| *pid > 0),
        "memlock": text_or_null(value("LimitMEMLOCK")),
    });
    Some(
        names
            .split_whitespace()
            .map(|name| (name.strip_suffix(".service").unwrap_or(name).to_owned(), state.clone()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn units_are_parsed_by_name() {
        // origin: reconstructed after `systemctl show` of Debian 12
        let text = "Id=nvidia-persistenced.service\nNames=nvidia-persistenced.service\nLoadState=loaded\nActiveState=active\nSubState=running\n\
                    UnitFileState=enabled\nNeedDaemonReload=no\nMainPID=812\nLimitMEMLOCK=8388608\n\n\
                    Id=ibacm.socket\nNames=ibacm.socket\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\nNeedDaemonReload=no\n";
        let expected = json!({
            "nvidia-persistenced": {"exists": true, "active": "active", "sub": "running", "enabled": "enabled", "needs_reload": false, "pid": 812, "memlock": "8388608"},
            "ibacm.socket": {"exists": false, "active": "inactive", "sub": "dead", "enabled": null, "needs_reload": false, "pid": null, "memlock": null},
        });
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(expect_unknown(&FACT, 0, "odd\n"), "a unit is not in the answer");
    }
}
