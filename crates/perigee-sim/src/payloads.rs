//! The bytes of QUIC datagrams while they are in the network. Segments and other datagrams have none.

/// Payloads by number; numbers are reused.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    bytes: Vec<Vec<u8>>,
    free: Vec<u32>,
}

#[cfg_attr(not(feature = "quic"), allow(dead_code, reason = "only flows over QUIC have payloads"))]
impl Payloads {
    /// Keeps the payload of a datagram that is sent; returns the number for its packet.
    pub(crate) fn put(&mut self, payload: &[u8]) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.bytes.push(Vec::new());
            self.bytes.len() as u32 - 1
        });
        self.bytes[number as usize].extend_from_slice(payload);
        number
    }

    /// The payload of a datagram.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        &self.bytes[number as usize]
    }

    /// Frees the number of a datagram that is no longer in the network.
    pub(crate) fn remove(&mut self, number: u32) {
        self.bytes[number as usize].clear();
        self.free.push(number);
    }

    /// Payloads that are kept.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.free.len()
    }
}
