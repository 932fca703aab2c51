//! `lspci -D -vvv -d ::0604`: which PCI bridges redirect traffic between their devices (Access Control Services).

/// A PCI bridge that has the capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcsBridge {
    /// PCI address with domain: `0000:15:01.0`.
    pub bdf: String,
    /// The enabled controls: `SrcValid`, `ReqRedir` …
    pub on: Vec<String>,
}

impl AcsBridge {
    /// Returns whether it redirects traffic between devices below it to the root complex.
    pub fn is_redirecting(&self) -> bool {
        self.on.iter().any(|flag| matches!(flag.as_str(), "SrcValid" | "ReqRedir" | "CmpltRedir"))
    }
}

/// The contents of the listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcsListing {
    /// Number of bridges, with or without the capability.
    pub bridges: usize,
    /// The bridges with the capability, in the order of the listing.
    pub with_acs: Vec<AcsBridge>,
    /// Whether capabilities were hidden from the account that ran the command.
    pub denied: bool,
}

/// Parses the listing.
pub fn parse_lspci_acs(text: &str) -> AcsListing {
    let mut listing = AcsListing { denied: text.contains("<access denied>"), ..AcsListing::default() };
    let mut bridge: Option<&str> = None;
    for line in text.lines() {
        if line.starts_with(|c: char| c.is_ascii_hexdigit()) {
            let (bdf, rest) = line.split_once(' ').unwrap_or((line, ""));
            bridge = rest.starts_with("PCI bridge").then_some(bdf);
            listing.bridges += usize::from(bridge.is_some());
        } else if let (Some(bdf), Some(flags)) = (bridge, line.trim().strip_prefix("ACSCtl:")) {
            let on = flags.split_whitespace().filter_map(|flag| flag.strip_suffix('+')).map(str::to_owned).collect();
            listing.with_acs.push(AcsBridge { bdf: bdf.to_owned(), on });
        }
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirecting_bridges_are_distinguished() {
        let listing = parse_lspci_acs(include_str!("../../../tests/samples/lspci-acs.txt"));
        assert_eq!(listing.bridges, 3);
        let redirecting: Vec<&str> =
            listing.with_acs.iter().filter(|b| b.is_redirecting()).map(|b| b.bdf.as_str()).collect();
        assert_eq!(redirecting, ["0000:15:01.0"]);
        assert_eq!(listing.with_acs.len(), 2, "one bridge has no such capability, an adapter is not a bridge");
        assert!(parse_lspci_acs("00:01.0 PCI bridge: x\n\tCapabilities: <access denied>\n").denied);
    }
}
