//! `nvidia-smi -q`: the state of each GPU as reported by the management library. Hosts are asked for the XML of the same
//! listing (`nvidia_smi_xml`); recordings from before that have this text.

use super::nvidia_version::is_version;
use std::collections::BTreeMap;

/// One GPU of the listing: values by their path, parts separated by ` / ` (`ECC Mode / Current`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmiGpu {
    /// PCI address as sysfs writes it: `0000:ad:00.0`.
    pub bdf: String,
    values: BTreeMap<String, String>,
}

/// The value of a field of the listing. A cell without a value is never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmiCell<'a> {
    /// The listing has no such line.
    Missing,
    /// The GPU does not have it.
    Absent,
    /// It could not be read, in the tool's words.
    Failed(&'a str),
    /// The text as printed, with its unit.
    Value(&'a str),
}

impl<'a> SmiCell<'a> {
    /// Parses the text after the colon, in its several spellings.
    pub fn from_text(text: &'a str) -> Self {
        match text.trim_matches(['[', ']']) {
            "N/A" | "Not Supported" | "" => Self::Absent,
            word @ ("Unknown Error" | "ERR!" | "Insufficient Permissions" | "GPU is lost") => Self::Failed(word),
            word if word.starts_with("GPU requires re") || word.starts_with("Requested functionality") => {
                Self::Failed(word)
            }
            _ => Self::Value(text),
        }
    }
}

impl SmiGpu {
    /// Creates a GPU without values.
    pub(super) fn new(bdf: String) -> Self {
        Self { bdf, values: BTreeMap::new() }
    }

    pub(super) fn insert_value(&mut self, path: String, value: &str) {
        self.values.insert(path, value.to_owned());
    }

    /// Returns the first of several paths that the listing has, with its value; without any, the last path.
    pub fn find_cell<'a>(&'a self, paths: &[&'a str]) -> (&'a str, SmiCell<'a>) {
        let found = paths.iter().find(|path| self.values.contains_key(**path)).or(paths.last());
        found.map_or(("", SmiCell::Missing), |path| (*path, self.cell_at(path)))
    }

    /// Returns the cells that the driver could not read, with their path.
    pub fn failed_cells(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(|(path, text)| match SmiCell::from_text(text) {
            SmiCell::Failed(said) => Some((path.as_str(), said)),
            _ => None,
        })
    }

    /// Returns the value at a path.
    pub fn cell_at(&self, path: &str) -> SmiCell<'_> {
        self.values.get(path).map_or(SmiCell::Missing, |text| SmiCell::from_text(text))
    }

    /// Returns the paths below a path, with their values.
    pub fn cells_below<'a, 'p>(&'a self, path: &'p str) -> impl Iterator<Item = (&'a str, SmiCell<'a>)> + use<'a, 'p> {
        let inside = move |(key, value): (&'a String, &'a String)| {
            Some((key.strip_prefix(path)?.strip_prefix(" / ")?, SmiCell::from_text(value)))
        };
        self.values.iter().filter_map(inside)
    }
}

/// The contents of the whole listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmiListing {
    /// The version of the loaded driver; `None` if the listing has none.
    pub driver: Option<String>,
    /// Every GPU, in the order of the listing.
    pub gpus: Vec<SmiGpu>,
}

/// Parses the listing by its indentation, because several blocks have a `State` or a `Current`.
pub fn parse_nvidia_smi(text: &str) -> SmiListing {
    let mut listing = SmiListing::default();
    let mut path: Vec<(usize, &str)> = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(bus) = line.strip_prefix("GPU ").filter(|_| indent == 0) {
            listing.gpus.push(SmiGpu::new(normalize_bdf(bus)));
            path.clear();
            continue;
        }
        let (key, value) =
            line.split_once(" : ").map_or((line.trim(), None), |(key, value)| (key.trim(), Some(value.trim())));
        match listing.gpus.last_mut() {
            None if key == "Driver Version" => {
                listing.driver = value.filter(|text| is_version(text)).map(str::to_owned)
            }
            None => {}
            Some(gpu) => gpu.push_line(&mut path, indent, key, value),
        }
    }
    listing
}

impl SmiGpu {
    fn push_line<'a>(&mut self, path: &mut Vec<(usize, &'a str)>, indent: usize, key: &'a str, value: Option<&str>) {
        if key.is_empty() {
            return;
        }
        while path.last().is_some_and(|(at, _)| *at >= indent) {
            path.pop();
        }
        if let Some(value) = value {
            let names: Vec<&str> = path.iter().map(|(_, name)| *name).chain([key]).collect();
            self.insert_value(names.join(" / "), value);
        }
        path.push((indent, key));
    }
}

/// Returns an address in the form of sysfs: the domain has four digits or as many as it needs, letters are lowercase.
pub fn normalize_bdf(bus: &str) -> String {
    let bus = bus.trim().to_ascii_lowercase();
    match bus.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => format!("{}:{rest}", &domain[4..]),
        Some((domain, rest)) if domain.len() == 8 => format!("{}:{rest}", domain.trim_start_matches('0')),
        _ => bus,
    }
}

/// Returns the meaning of an exit status of `nvidia-smi`, if it is a known one.
pub fn describe_exit_status(status: i32) -> Option<&'static str> {
    Some(match status {
        3 => "the operation is not supported",
        4 => "permission denied",
        6 => "no GPU was found",
        8 => "a power cable is missing",
        9 => "the driver is not loaded",
        12 => "the management library is missing",
        13 => "a function is missing from the management library: version mismatch",
        14 => "the infoROM of a GPU is corrupt",
        15 => "a GPU fell off the bus",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: &str = include_str!("../../../tests/samples/nvidia-smi-q-h100-nvl.txt");

    #[test]
    fn indentation_separates_blocks() {
        let listing = parse_nvidia_smi(H100);
        assert_eq!(listing.driver.as_deref(), Some("550.54.14"));
        let gpus: Vec<&str> = listing.gpus.iter().map(|gpu| gpu.bdf.as_str()).collect();
        assert_eq!(gpus, ["0000:ad:00.0", "0000:ae:00.0"]);
        let gpu = &listing.gpus[0];
        assert_eq!(gpu.cell_at("GSP Firmware Version"), SmiCell::Value("550.54.14"));
        assert_eq!(gpu.cell_at("MIG Mode / Current"), SmiCell::Value("Disabled"));
        assert_eq!(gpu.cell_at("ECC Mode / Current"), SmiCell::Value("Enabled"));
        assert_eq!(gpu.cell_at("Remapped Rows / Uncorrectable Error"), SmiCell::Value("0"));
        assert_eq!(
            gpu.cell_at("Remapped Rows / Bank Remap Availability Histogram / None"),
            SmiCell::Value("0 bank(s)")
        );
        assert_eq!(
            gpu.cell_at("Clocks Event Reasons / HW Slowdown / HW Thermal Slowdown"),
            SmiCell::Value("Not Active")
        );
        assert_eq!(gpu.cell_at("Fabric / State"), SmiCell::Absent, "a PCIe card has no fabric");
        assert_eq!(gpu.cell_at("GPU Recovery Action"), SmiCell::Missing, "the branch does not report it");
    }

    #[test]
    fn cell_without_value_is_never_parsed_as_zero() {
        for cell in ["N/A", "[N/A]", "Not Supported", "[Not Supported]", ""] {
            assert_eq!(SmiCell::from_text(cell), SmiCell::Absent, "{cell}");
        }
        for cell in ["[Unknown Error]", "ERR!", "[GPU is lost]", "[GPU requires reset]", "Insufficient Permissions"] {
            assert_eq!(SmiCell::from_text(cell), SmiCell::Failed(cell.trim_matches(['[', ']'])), "{cell}");
        }
        assert_eq!(
            SmiCell::from_text("Requested functionality has been deprecated"),
            SmiCell::Failed("Requested functionality has been deprecated")
        );
        assert_eq!(
            (SmiCell::from_text("0"), SmiCell::from_text("None")),
            (SmiCell::Value("0"), SmiCell::Value("None")),
            "`None` is a recovery action"
        );
    }

    #[test]
    fn pci_addresses_are_normalized_to_sysfs_form() {
        let all = ["00000000:AD:00.0", "0000:18:00.0", "00010000:01:00.0"].map(normalize_bdf);
        assert_eq!(all, ["0000:ad:00.0", "0000:18:00.0", "10000:01:00.0"]);
    }
}
