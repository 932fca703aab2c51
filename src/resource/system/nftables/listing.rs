//! Parses the listings that `nft` prints of two tables, without the parts that change while they are loaded.

/// Separates the two listings.
const SEPARATOR: &str = "\u{1e}\n";

/// The declared table and the table in the kernel, both as printed by the host's `nft`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableListings {
    /// Empty if no table is declared.
    pub declared: String,
    pub loaded: Option<String>,
    /// A table that the rules declare in addition to their own.
    pub other_table: Option<String>,
}

impl TableListings {
    /// Parses the output for `table`; `None` if its form is unexpected.
    pub fn parse(stdout: &str, table: &str) -> Option<Self> {
        let (declared, loaded) = stdout.split_once(SEPARATOR)?;
        let own = format!("table {table} {{");
        let other = declared.lines().find(|line| line.starts_with("table ") && *line != own);
        let other_table = other.map(|line| line.trim_end_matches(" {").to_owned());
        if !loaded.is_empty() && loaded.lines().next() != Some(own.as_str()) {
            return None;
        }
        let loaded = (!loaded.is_empty()).then(|| strip_dynamic_elements(loaded));
        Some(Self { declared: strip_dynamic_elements(declared), loaded, other_table })
    }
}

/// Removes from a listing the elements of sets that rules and timeouts fill.
fn strip_dynamic_elements(listing: &str) -> String {
    let mut kept = String::new();
    let (mut set_changes, mut inside) = (false, false);
    for line in listing.split_inclusive('\n') {
        let text = line.trim();
        match text.split(' ').next() {
            Some("set" | "map" | "chain") => set_changes = false,
            Some("flags") => set_changes = ["dynamic", "timeout"].iter().any(|flag| has_flag(text, flag)),
            Some("elements") => inside = set_changes,
            _ => {}
        }
        if !inside {
            kept.push_str(line);
        }
        inside &= !text.ends_with('}');
    }
    kept
}

fn has_flag(line: &str, flag: &str) -> bool {
    line.trim_start_matches("flags").split(',').any(|word| word.trim() == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by nft 1.0.6.
    const SETS: &str = "table inet t {\n\tset seen {\n\t\ttype ipv4_addr\n\t\tsize 65535\n\t\tflags dynamic,timeout\n\t\ttimeout 1m\n\
        \t\telements = { 10.0.0.1 timeout 1m expires 5s,\n\t\t\t     10.0.0.2 timeout 1m expires 6s }\n\t}\n\n\
        \tset nodes {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 10.0.14.0/24 }\n\t}\n}\n";

    #[test]
    fn dynamic_elements_are_stripped_and_declared_ones_kept() {
        let kept = strip_dynamic_elements(SETS);
        assert!(!kept.contains("10.0.0.") && kept.contains("elements = { 10.0.14.0/24 }"), "{kept}");
        assert_eq!(kept.matches('}').count(), 4, "{kept}");
    }

    #[test]
    fn other_table_is_reported_and_malformed_output_rejected() {
        let both = "table inet t {\n}\ntable ip filter {\n}\n\u{1e}\n";
        assert_eq!(TableListings::parse(both, "inet t").unwrap().other_table.as_deref(), Some("table ip filter"));
        let gone = TableListings::parse("table inet t {\n}\n\u{1e}\n", "inet t").unwrap();
        assert_eq!((gone.loaded, gone.other_table), (None, None));
        assert_eq!(TableListings::parse("table inet t {\n}\n", "inet t"), None);
        assert_eq!(TableListings::parse("\u{1e}\nwhat\n", "inet t"), None);
    }
}
