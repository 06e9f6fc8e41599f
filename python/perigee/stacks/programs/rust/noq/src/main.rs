// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Server and client by noq.

use noq::congestion::Bbr3Config as Bbr;
use noq as quic;

/// The name of its BBR.
const BBR: &str = "bbr3";

include!("../../pair.rs");
