//! `ofed_info -s`: the RDMA stack that is installed in addition to the kernel's own.

/// An installed stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaStack {
    /// `mlnx_ofed` or `doca`
    pub kind: &'static str,
    /// `24.10-0.7.0.0`
    pub version: String,
}

/// Parses the line; `None` if it has another format.
pub fn parse_ofed_info(text: &str) -> Option<RdmaStack> {
    let stack = |line: &str| {
        let line = line.trim().trim_end_matches(':');
        let (kind, version) = match (line.strip_prefix("MLNX_OFED_LINUX-"), line.strip_prefix("OFED-internal-")) {
            (Some(version), _) => ("mlnx_ofed", version),
            (None, Some(version)) => ("doca", version),
            _ => return None,
        };
        let is_version = version.starts_with(|c: char| c.is_ascii_digit());
        is_version.then(|| RdmaStack { kind, version: version.to_owned() })
    };
    text.lines().find_map(stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_kind_and_version_are_parsed() {
        let of = |text| parse_ofed_info(text).map(|stack| (stack.kind, stack.version));
        assert_eq!(
            of(include_str!("../../../tests/samples/ofed_info-mlnx.txt")),
            Some(("mlnx_ofed", "24.10-0.7.0.0".into()))
        );
        assert_eq!(of(include_str!("../../../tests/samples/ofed_info-doca.txt")), Some(("doca", "25.10-1.7.1".into())));
        assert_eq!(of("sh: 1: ofed_info: not found\n"), None);
    }
}
