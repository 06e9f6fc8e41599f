//! Writes `FlatBuffers`, the encoding of Arrow's metadata ("`FlatBuffers` internals" in its documentation).
//!
//! A buffer grows from its end, since what refers to something lies before it. Places are counted from the end.

/// A buffer under construction.
#[derive(Default)]
pub(crate) struct Builder {
    /// From the last byte to the first.
    reversed: Vec<u8>,
}

/// A finished part of a buffer, by the distance of its first byte from the end.
#[derive(Clone, Copy)]
pub(crate) struct Place(usize);

/// The value of a table's field.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    /// The default, which is not stored.
    Absent,
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Offset(Place),
}

impl Slot {
    fn bytes(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Byte(_) => 1,
            Self::Short(_) => 2,
            Self::Int(_) | Self::Offset(_) => 4,
            Self::Long(_) => 8,
        }
    }
}

impl Builder {
    /// A text with its length, and a zero behind it.
    pub(crate) fn text(&mut self, text: &str) -> Place {
        self.align(4, text.len() + 1);
        self.push(&[0]);
        self.push(text.as_bytes());
        self.push_length(text.len())
    }

    /// A list of references.
    pub(crate) fn list(&mut self, places: &[Place]) -> Place {
        self.align(4, 4 * places.len());
        for place in places.iter().rev() {
            self.push_offset(*place);
        }
        self.push_length(places.len())
    }

    /// A list of pairs of numbers.
    pub(crate) fn pairs(&mut self, pairs: &[(i64, i64)]) -> Place {
        self.align(8, 16 * pairs.len());
        for (first, second) in pairs.iter().rev() {
            self.push(&second.to_le_bytes());
            self.push(&first.to_le_bytes());
        }
        self.push_length(pairs.len())
    }

    /// A table with these fields, by their numbers.
    pub(crate) fn table(&mut self, slots: &[Slot]) -> Place {
        let mut places = vec![0; slots.len()];
        for bytes in [8, 4, 2, 1] {
            for (place, slot) in places.iter_mut().zip(slots).filter(|(_, slot)| slot.bytes() == bytes) {
                self.align(bytes, bytes);
                match *slot {
                    Slot::Absent => {}
                    Slot::Byte(value) => self.push(&value.to_le_bytes()),
                    Slot::Short(value) => self.push(&value.to_le_bytes()),
                    Slot::Int(value) => self.push(&value.to_le_bytes()),
                    Slot::Long(value) => self.push(&value.to_le_bytes()),
                    Slot::Offset(to) => self.push_offset(to),
                }
                *place = self.reversed.len();
            }
        }
        self.align(4, 4);
        // The distance to the list of offsets, which lies before the table.
        let list_bytes = 4 + 2 * slots.len();
        self.push(&(list_bytes as i32).to_le_bytes());
        let table = self.reversed.len();
        let last = places.iter().copied().filter(|place| *place > 0).min().unwrap_or(table);
        let width = slots.iter().zip(&places).filter(|(_, place)| **place == last).map(|(slot, _)| slot.bytes()).max();
        for place in places.iter().rev() {
            let offset = if *place == 0 { 0 } else { table - place };
            self.push(&(offset as u16).to_le_bytes());
        }
        let table_bytes = table - last + width.unwrap_or(4);
        self.push(&(table_bytes as u16).to_le_bytes());
        self.push(&(list_bytes as u16).to_le_bytes());
        Place(table)
    }

    /// The buffer, whose length is a multiple of 8.
    pub(crate) fn finish(mut self, root: Place) -> Vec<u8> {
        self.align(8, 4);
        self.push_offset(root);
        self.reversed.reverse();
        self.reversed
    }

    /// Pads, so that what begins `bytes` further on is aligned.
    fn align(&mut self, to: usize, bytes: usize) {
        let end = self.reversed.len() + bytes;
        self.reversed.resize(end.next_multiple_of(to) - bytes, 0);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    fn push_length(&mut self, length: usize) -> Place {
        self.push(&(length as u32).to_le_bytes());
        Place(self.reversed.len())
    }

    fn push_offset(&mut self, to: Place) {
        let here = self.reversed.len() + 4;
        self.push(&((here - to.0) as u32).to_le_bytes());
    }
}
