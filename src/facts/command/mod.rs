//! Parsers for the output of common GPU and RDMA commands and files. They are independent and do no I/O.
//!
//! They are lenient about spacing and order, and never invent a value: a value that is not printed is `None`. Each is
//! tested with recorded output in `tests/samples`, where the index names the source of every sample.

pub mod dkms;
pub mod fio;
pub mod gpu_clocks;
pub mod ibnetdiscover;
pub mod ibqueryerrors;
pub mod ibstat;
pub mod ibstatus;
pub mod ibv_devinfo;
pub mod lspci_acs;
pub mod mlnx_qos;
pub mod modinfo;
pub mod nccl_log;
pub mod nccl_tests;
pub mod nvbandwidth;
pub mod nvidia_information;
pub mod nvidia_nvlink;
pub mod nvidia_smi;
pub mod nvidia_smi_xml;
pub mod nvidia_topo;
pub mod nvidia_version;
pub mod ofed_info;
pub mod perfquery;
pub mod perftest;
pub mod port_rate;
pub mod rdma_ping;
pub mod sminfo;
pub mod sysbench;

/// Returns the key and the value of a line `KEY: VALUE`, both trimmed.
fn split_key_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    Some((key.trim(), value.trim()))
}

/// Returns a number written in decimal or, after `0x`, in hex.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
