//! Modulation and coding schemes of DVB-S2 and DVB-S2X: spectral efficiency and Es/N0 of each.
//!
//! ETSI EN 302 307-1 V1.4.1 (DVB-S2), tables 12 and 13; EN 302 307-2 V1.1.1 (DVB-S2X), table 20a: normal FECFRAMEs, without pilots, and the
//! Es/N0 for quasi error-free reception with an ideal receiver.

/// A modulation and coding scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Modcod {
    /// Its name in the standard.
    pub(crate) name: &'static str,
    /// Bits per symbol, without pilots.
    pub(crate) efficiency: f64,
    /// Es/N0 for quasi error-free reception with an ideal receiver, dB.
    pub(crate) threshold_db: f64,
}

/// MODCODs of DVB-S2 (EN 302 307, table 13), most robust first.
pub(crate) static DVB_S2: [Modcod; 28] = [
    modcod("QPSK 1/4", 0.490_243, -2.35),
    modcod("QPSK 1/3", 0.656_448, -1.24),
    modcod("QPSK 2/5", 0.789_412, -0.30),
    modcod("QPSK 1/2", 0.988_858, 1.00),
    modcod("QPSK 3/5", 1.188_304, 2.23),
    modcod("QPSK 2/3", 1.322_253, 3.10),
    modcod("QPSK 3/4", 1.487_473, 4.03),
    modcod("QPSK 4/5", 1.587_196, 4.68),
    modcod("QPSK 5/6", 1.654_663, 5.18),
    modcod("QPSK 8/9", 1.766_451, 6.20),
    modcod("QPSK 9/10", 1.788_612, 6.42),
    modcod("8PSK 3/5", 1.779_991, 5.50),
    modcod("8PSK 2/3", 1.980_636, 6.62),
    modcod("8PSK 3/4", 2.228_124, 7.91),
    modcod("8PSK 5/6", 2.478_562, 9.35),
    modcod("8PSK 8/9", 2.646_012, 10.69),
    modcod("8PSK 9/10", 2.679_207, 10.98),
    modcod("16APSK 2/3", 2.637_201, 8.97),
    modcod("16APSK 3/4", 2.966_728, 10.21),
    modcod("16APSK 4/5", 3.165_623, 11.03),
    modcod("16APSK 5/6", 3.300_184, 11.61),
    modcod("16APSK 8/9", 3.523_143, 12.89),
    modcod("16APSK 9/10", 3.567_342, 13.13),
    modcod("32APSK 3/4", 3.703_295, 12.73),
    modcod("32APSK 4/5", 3.951_571, 13.64),
    modcod("32APSK 5/6", 4.119_540, 14.28),
    modcod("32APSK 8/9", 4.397_854, 15.69),
    modcod("32APSK 9/10", 4.453_027, 16.05),
];

/// Those that DVB-S2X adds, the most robust first. The linear ones (`-L`) are for carriers that the transponder does not distort; the
/// others are for one carrier in a saturated transponder.
pub(crate) static DVB_S2X: [Modcod; 39] = [
    extended("QPSK 2/9", 2, 2, 9, 192, -2.85),
    extended("QPSK 13/45", 2, 13, 45, 192, -2.03),
    extended("QPSK 9/20", 2, 9, 20, 192, 0.22),
    extended("QPSK 11/20", 2, 11, 20, 192, 1.45),
    extended("8APSK 5/9-L", 3, 5, 9, 192, 4.73),
    extended("8APSK 26/45-L", 3, 26, 45, 192, 5.13),
    extended("8PSK 23/36", 3, 23, 36, 192, 6.12),
    extended("8PSK 25/36", 3, 25, 36, 192, 7.02),
    extended("8PSK 13/18", 3, 13, 18, 192, 7.49),
    extended("16APSK 1/2-L", 4, 1, 2, 192, 5.97),
    extended("16APSK 8/15-L", 4, 8, 15, 192, 6.55),
    extended("16APSK 5/9-L", 4, 5, 9, 192, 6.84),
    extended("16APSK 26/45", 4, 26, 45, 192, 7.51),
    extended("16APSK 3/5", 4, 3, 5, 192, 7.80),
    extended("16APSK 3/5-L", 4, 3, 5, 192, 7.41),
    extended("16APSK 28/45", 4, 28, 45, 192, 8.10),
    extended("16APSK 23/36", 4, 23, 36, 192, 8.38),
    extended("16APSK 2/3-L", 4, 2, 3, 192, 8.43),
    extended("16APSK 25/36", 4, 25, 36, 192, 9.27),
    extended("16APSK 13/18", 4, 13, 18, 192, 9.71),
    extended("16APSK 7/9", 4, 7, 9, 192, 10.65),
    extended("16APSK 77/90", 4, 77, 90, 192, 11.99),
    extended("32APSK 2/3-L", 5, 2, 3, 160, 11.10),
    extended("32APSK 32/45", 5, 32, 45, 192, 11.75),
    extended("32APSK 11/15", 5, 11, 15, 192, 12.17),
    extended("32APSK 7/9", 5, 7, 9, 192, 13.05),
    extended("64APSK 32/45-L", 6, 32, 45, 192, 13.98),
    extended("64APSK 11/15", 6, 11, 15, 192, 14.81),
    extended("64APSK 7/9", 6, 7, 9, 192, 15.47),
    extended("64APSK 4/5", 6, 4, 5, 192, 15.87),
    extended("64APSK 5/6", 6, 5, 6, 160, 16.55),
    extended("128APSK 3/4", 7, 3, 4, 192, 17.73),
    extended("128APSK 7/9", 7, 7, 9, 192, 18.53),
    extended("256APSK 29/45-L", 8, 29, 45, 192, 16.98),
    extended("256APSK 2/3-L", 8, 2, 3, 192, 17.24),
    extended("256APSK 31/45-L", 8, 31, 45, 192, 18.10),
    extended("256APSK 32/45", 8, 32, 45, 192, 18.59),
    extended("256APSK 11/15-L", 8, 11, 15, 192, 18.84),
    extended("256APSK 3/4", 8, 3, 4, 192, 19.57),
];

/// A MODCOD by its frame: 64,800 coded bits, of which some are the parity of the BCH code and 80 the header of the base band, in slots of
/// 90 symbols behind a header of one slot.
const fn extended(
    name: &'static str,
    bits_per_symbol: u32,
    numerator: u32,
    denominator: u32,
    parity: u32,
    threshold_db: f64,
) -> Modcod {
    let bits = FRAME_BITS * numerator / denominator - parity - HEADER_BITS;
    let slots = FRAME_BITS.div_ceil(bits_per_symbol * SLOT_SYMBOLS) + 1;
    modcod(name, bits as f64 / (slots * SLOT_SYMBOLS) as f64, threshold_db)
}

const fn modcod(name: &'static str, efficiency: f64, threshold_db: f64) -> Modcod {
    Modcod { name, efficiency, threshold_db }
}

const FRAME_BITS: u32 = 64_800;
const HEADER_BITS: u32 = 80;
const SLOT_SYMBOLS: u32 = 90;
