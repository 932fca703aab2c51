//! `mlnx_qos -i IF` and `ethtool -a IF`: the settings that prevent drops of RoCE traffic.

use super::split_key_value;

/// The settings of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosSettings {
    /// `OS controlled`, `Firmware controlled`; older tools do not report it.
    pub dcbx: Option<String>,
    /// `dscp` or `pcp`
    pub trust: Option<String>,
    /// Which of the eight priorities are paused.
    pub pfc: Option<Vec<bool>>,
}

/// Parses the output of `mlnx_qos -i IF`.
pub fn parse_mlnx_qos(text: &str) -> QosSettings {
    let value = |name: &str| {
        text.lines().filter_map(split_key_value).find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    QosSettings {
        dcbx: value("DCBX mode"),
        trust: value("Priority trust state"),
        pfc: text.lines().find_map(parse_enabled),
    }
}

/// Parses the row of eight digits, with or without a colon after its name.
fn parse_enabled(line: &str) -> Option<Vec<bool>> {
    let cells: Vec<&str> = line.trim().strip_prefix("enabled")?.trim_start_matches(':').split_whitespace().collect();
    let flags: Option<Vec<bool>> = cells
        .iter()
        .map(|cell| match *cell {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })
        .collect();
    flags.filter(|flags| flags.len() == 8)
}

/// Pause frames of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseFrames {
    /// Whether the interface stops sending when it receives a pause frame.
    pub rx: bool,
    /// Whether the interface sends pause frames.
    pub tx: bool,
}

/// Parses the output of `ethtool -a IF`; `None` unless it contains both.
pub fn parse_pause(text: &str) -> Option<PauseFrames> {
    let flag = |name: &str| match text.lines().filter_map(split_key_value).find(|(key, _)| *key == name)?.1 {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    Some(PauseFrames { rx: flag("RX")?, tx: flag("TX")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_mode_and_pfc_priorities_are_parsed() {
        let qos = parse_mlnx_qos(include_str!("../../../tests/samples/mlnx_qos-dscp.txt"));
        let pfc = Some(vec![false, false, false, true, false, false, false, false]);
        assert_eq!(qos, QosSettings { dcbx: Some("OS controlled".into()), trust: Some("dscp".into()), pfc });
        let old = parse_mlnx_qos(include_str!("../../../tests/samples/mlnx_qos-pcp.txt"));
        assert_eq!((old.dcbx, old.trust.as_deref(), old.pfc), (None, Some("pcp"), Some(vec![false; 8])));
        assert_eq!(parse_mlnx_qos("\tpriority 0 1\n\tenabled  0 0\n"), QosSettings::default(), "a truncated table");
    }

    #[test]
    fn pause_frame_settings_are_parsed() {
        // origin: source, ethtool's pause.c
        let text = "Pause parameters for eth1:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\ton\n\n";
        assert_eq!(parse_pause(text), Some(PauseFrames { rx: false, tx: true }));
        assert_eq!(parse_pause("netlink error: Operation not supported\n"), None);
    }
}
