//! `sminfo`: the subnet manager of a port.

use super::parse_number;

/// A subnet manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetManager {
    /// The local identifier of its port.
    pub lid: u64,
    /// The GUID of its port: `0x` and hex digits.
    pub guid: String,
    /// Increases while it runs.
    pub activity: Option<u64>,
    /// 0 to 15; among several subnet managers, the one with the highest priority is the master.
    pub priority: Option<u64>,
    /// `master`, `standby`, `discovering`, `not-active`
    pub state: &'static str,
}

/// Parses the line; `None` if it has another format (`iberror: failed: query`) or an unknown state.
pub fn parse_sminfo(text: &str) -> Option<SubnetManager> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("sminfo: "))?;
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let after = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
    let state = match after("state")? {
        "0" => "not-active",
        "1" => "discovering",
        "2" => "standby",
        "3" => "master",
        _ => return None,
    };
    Some(SubnetManager {
        lid: parse_number(after("lid")?)?,
        guid: after("guid")?.to_owned(),
        activity: after("count").and_then(parse_number),
        priority: after("priority").and_then(parse_number),
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnet_manager_is_parsed() {
        let manager = parse_sminfo(include_str!("../../../tests/samples/sminfo.txt")).expect("is one");
        assert_eq!((manager.lid, manager.guid.as_str(), manager.state), (3, "0x248a0703009c0196", "master"));
        assert_eq!((manager.activity, manager.priority), (Some(38526), Some(15)));
        let simulated = parse_sminfo(include_str!("../../../tests/samples/sminfo-ibsim.txt")).expect("is one");
        assert_eq!((simulated.lid, simulated.guid.as_str(), simulated.priority), (1, "0x100003", Some(0)));
        assert_eq!(parse_sminfo(include_str!("../../../tests/samples/sminfo-ibsim-nosm.txt")), None);
        assert_eq!(
            parse_sminfo("sminfo: sm lid 2 sm guid 0x1, activity count 1 priority 0 state 9 SMINFO_ODD\n"),
            None
        );
    }
}
