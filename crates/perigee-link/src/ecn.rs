//! Treatment of the ECN field by a link, as tunnels and middleboxes treat it (RFC 6040; RFC 3168, section 9).
//!
//! A tunnel's packets have two fields: the inner one of the sender, and the outer one, which queues inside the tunnel
//! see and mark. RFC 6040 obliges the ingress to copy the inner field to the outer one, and the egress to copy a mark
//! back (`Pass`); the other treatments are its mode for an egress that does not, such an egress, and middleboxes that
//! clear the field or refuse what uses it.

use perigee_units::encode_enum;

use crate::packet::Ecn;

/// How a link treats the ECN field of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnTreatment {
    /// The queue sees the field and may mark it: no tunnel, or one in the normal mode of RFC 6040.
    #[default]
    Pass,
    /// A tunnel in the compatibility mode of RFC 6040, section 4.3 (limited functionality in RFC 3168): its queue sees Not-ECT and drops
    /// instead of marking; the field leaves as it came.
    Compatibility,
    /// A tunnel whose ingress copies the field, and whose egress ignores the outer one, as before RFC 3168: the queue
    /// marks, and its marks are lost.
    IgnoreOuter,
    /// The field is cleared to Not-ECT before the queue.
    Bleach,
    /// A firewall before the queue drops ECN-capable packets, and the segments that ask for ECN.
    Drop,
}

encode_enum!(EcnTreatment { Pass, Compatibility, IgnoreOuter, Bleach, Drop });

impl EcnTreatment {
    /// The field that the queue sees of a packet with this one; `None` if the packet is dropped.
    pub(crate) fn enter(self, inner: Ecn) -> Option<Ecn> {
        match self {
            Self::Pass | Self::IgnoreOuter => Some(inner),
            Self::Compatibility | Self::Bleach => Some(inner.cleared()),
            Self::Drop => (inner == Ecn::NotCapable).then_some(inner),
        }
    }

    /// The field of a packet that leaves: it came with `inner`, and left the queue with `outer`.
    pub(crate) fn leave(self, inner: Ecn, outer: Ecn) -> Ecn {
        match self {
            Self::Compatibility | Self::IgnoreOuter => inner,
            Self::Pass | Self::Bleach | Self::Drop => outer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Ecn; 5] = [Ecn::NotCapable, Ecn::AsksFor, Ecn::Capable, Ecn::L4s, Ecn::Marked];

    /// The field that leaves, whether or not the queue marks, by the field that came.
    fn through(treatment: EcnTreatment, marks: bool) -> [Option<Ecn>; 5] {
        ALL.map(|inner| {
            let seen = treatment.enter(inner)?;
            Some(treatment.leave(inner, if marks && seen.is_capable() { Ecn::Marked } else { seen }))
        })
    }

    #[test]
    fn each_treatment_does_what_it_says_to_every_codepoint() {
        let [not, asks, ect0, ect1, ce] = ALL.map(Some);
        for marks in [false, true] {
            let marked = |ecn| if marks { ce } else { ecn };
            assert_eq!(through(EcnTreatment::Pass, marks), [not, asks, marked(ect0), marked(ect1), ce]);
            assert_eq!(through(EcnTreatment::Compatibility, marks), [not, asks, ect0, ect1, ce]);
            assert_eq!(through(EcnTreatment::IgnoreOuter, marks), [not, asks, ect0, ect1, ce]);
            assert_eq!(through(EcnTreatment::Bleach, marks), [not, asks, not, not, not]);
            assert_eq!(through(EcnTreatment::Drop, marks), [not, None, None, None, None]);
        }
        assert_eq!(EcnTreatment::Compatibility.enter(Ecn::Capable), Some(Ecn::NotCapable), "the queue cannot mark");
        assert_eq!(EcnTreatment::IgnoreOuter.enter(Ecn::Capable), Some(Ecn::Capable), "the queue marks");
    }
}
