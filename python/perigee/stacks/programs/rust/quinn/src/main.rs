// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Server and client by quinn.

use quinn::congestion::BbrConfig as Bbr;
use quinn as quic;

/// The name of its BBR.
const BBR: &str = "bbr";

include!("../../pair.rs");
