//! NCCL's own log (`NCCL_DEBUG=INFO`): which network a run used, and whether adapters read the memory of GPUs.
//!
//! `via NET/IB/0/GDRDMA` is the reliable proof of GPUDirect RDMA: other lines about it are not printed by every version.

/// What the log says about the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NcclTransport {
    /// Whether the network was RDMA: `Using network IB`, or a channel over it.
    pub uses_rdma: bool,
    /// Whether the network was sockets.
    pub uses_sockets: bool,
    /// Channels between hosts with GPUDirect RDMA.
    pub gdr_channels: usize,
    /// RDMA channels between hosts without it.
    pub channels_without_gdr: usize,
}

/// Reads the log, also if a launcher prints the rank before each line.
pub fn parse_nccl_log(text: &str) -> NcclTransport {
    let mut transport = NcclTransport::default();
    for line in text.lines() {
        let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest.split_whitespace().next().unwrap_or(""));
        if let Some(network) = after("Using network ") {
            transport.add_network(network);
        }
        if let Some(path) = after(" via NET/") {
            transport.add_channel(path);
        }
    }
    transport
}

impl NcclTransport {
    fn add_network(&mut self, network: &str) {
        match network {
            "Socket" => self.uses_sockets = true,
            "IB" => self.uses_rdma = true,
            _ => {}
        }
    }

    /// Adds `IB/0/GDRDMA`, `IB/0`, `Socket/0`; a number of the proxy may follow.
    fn add_channel(&mut self, path: &str) {
        let mut words = path.split('/');
        match words.next() {
            Some("Socket") => self.uses_sockets = true,
            Some("IB") => {
                self.uses_rdma = true;
                match words.any(|word| word.starts_with("GDRDMA")) {
                    true => self.gdr_channels += 1,
                    false => self.channels_without_gdr += 1,
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_and_gpudirect_are_read_from_the_log() {
        let good = parse_nccl_log(include_str!("../../../tests/samples/nccl-log-ib.txt"));
        let expected = NcclTransport { uses_rdma: true, uses_sockets: false, gdr_channels: 4, channels_without_gdr: 0 };
        assert_eq!(good, expected);
        let sockets = parse_nccl_log(include_str!("../../../tests/samples/nccl-log-socket.txt"));
        assert_eq!((sockets.uses_sockets, sockets.uses_rdma, sockets.gdr_channels), (true, false, 0));
        let one_gpu = parse_nccl_log(include_str!("../../../tests/samples/all_reduce_perf-one-gpu.txt"));
        assert_eq!((one_gpu.uses_sockets, one_gpu.uses_rdma), (true, false), "`NET/IB : Using [RO]` names no device");
        assert_eq!(parse_nccl_log("NCCL version 2.27.7+cuda12.8\n"), NcclTransport::default());
    }
}
