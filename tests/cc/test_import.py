# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc import`: kernel modules and programs become files of Perigee, or are refused with a line."""

from __future__ import annotations

import os
import re
from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee, own
from perigee.cc.kernel import unload
from study_text import flow, link

MODULE = """// SPDX-License-Identifier: GPL-2.0-or-later
/* A module as the kernel has them, of our own making. */
#include <linux/module.h>
#include <net/tcp.h>

#define SCALE 1024

static int keep __read_mostly = SCALE / 2; /* of the window, after a loss */
module_param(keep, int, 0644);
MODULE_PARM_DESC(keep, "part of the window " "that stays");
static bool slow = true;
module_param(slow, bool, 0644);
static u32 steps __read_mostly;
static int unused = 3;

struct made {
	u32 since;
	u16 last[2];
	u32 place:1;
};

static const u32 table[] = { 1, 2, 4, 8 };

/* Without a socket: what init computed, and the clock. */
static u32 step(struct made *m)
{
	if (time_after32(tcp_jiffies32, m->since + HZ))
		m->since = tcp_jiffies32;
	while (m->since > tcp_jiffies32)
		m->since--;
	m->last[m->place] = (u16)steps;
	return table[steps % ARRAY_SIZE(table)] + unused - 3;
}

void made_init(struct sock *sk)
{
	struct made *m = inet_csk_ca(sk);

	m->since = tcp_jiffies32;
	tcp_sk(sk)->snd_cwnd_clamp = min_t(u32, tcp_sk(sk)->snd_cwnd_clamp, 100000U);
}

static u32 made_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) * keep / SCALE, 2U);
}

static void made_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (slow && tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, max(tcp_snd_cwnd(tp) / step(inet_csk_ca(sk)), 1U), acked);
}

static size_t made_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	info->vegas.tcpv_enabled = 1;
	return 0;
}

static struct tcp_congestion_ops made __read_mostly = {
	.init = made_init,
	.ssthresh = made_ssthresh,
	.cong_avoid = made_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.get_info = made_info,
	.tso_segs = made_info,
	.owner = THIS_MODULE,
	.name = "made-up",
};

static int __init made_register(void)
{
	BUILD_BUG_ON(sizeof(struct made) > ICSK_CA_PRIV_SIZE);
	steps = (SCALE - keep) / 3 / 200;
	return tcp_register_congestion_control(&made);
}

static void __exit made_unregister(void)
{
	tcp_unregister_congestion_control(&made);
}

module_init(made_register);
module_exit(made_unregister);
MODULE_AUTHOR("Somebody");
MODULE_LICENSE("GPL v2");
MODULE_DESCRIPTION("Made up");
"""
PROGRAM = """// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

SEC("struct_ops")
__u32 BPF_PROG(third, struct sock *sk)
{
	__u32 window = tcp_sk(sk)->snd_cwnd;

	return window > 6 ? window - window / 3 : 4;
}

SEC("struct_ops")
void BPF_PROG(avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops third_ops = {
	.ssthresh = (void *)third,
	.cong_avoid = (void *)avoid,
	.undo_cwnd = (void *)tcp_reno_undo_cwnd,
	.name = "thirds",
};
"""
NEWER = (
    MODULE.replace("u32 place:1;", "u32 place:1;\n\tstruct tcp_plb_state plb;")
    .replace("void made_init", "__bpf_kfunc_start_defs();\n\n__bpf_kfunc static void made_init")
    .replace("static u32 made_ssthresh", "__bpf_kfunc static u32 made_ssthresh")
    .replace("\n\tm->since = tcp_jiffies32;\n", "\n\tm->since = tcp_jiffies32;\n\ttcp_plb_init(sk, &m->plb);\n")
    .replace(
        "static size_t made_info",
        "static void made_sent(struct sock *sk)\n{\n\tstruct made *m = inet_csk_ca(sk);\n\n"
        "\ttcp_plb_check_rehash(sk, &m->plb);\n}\n\n__bpf_kfunc_end_defs();\n\n"
        "BTF_KFUNCS_START(made_ids)\nBTF_ID_FLAGS(func, made_init)\n"
        "BTF_KFUNCS_END(made_ids)\n\nstatic const struct btf_kfunc_id_set made_set = {\n\t.owner = THIS_MODULE,\n"
        '\t.set = &made_ids,\n};\n\n#define NAME TITLE\n#define TITLE "made-up"\n\nstatic size_t made_info',
    )
    .replace('.name = "made-up"', ".min_tso_segs = NULL,\n\t.cwnd_event_tx_start = made_sent,\n\t.name = NAME")
    .replace(
        "\tBUILD_BUG_ON",
        "\tint ret = register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &made_set);\n\n"
        "\tif (ret < 0)\n\t\treturn ret;\n"
        "\tBUILD_BUG_ON",
    )
)
"""The module as kernels since 6.3 write theirs."""
OWN = (
    PROGRAM.replace(
        "extern void",
        "#define min(a, b) ((a) < (b) ? (a) : (b))\n#define max(a, b) ((a) > (b) ? (a) : (b))\n"
        "#define HZ CONFIG_HZ\n"
        "extern unsigned long CONFIG_HZ __kconfig;\nconst volatile __u32 third_part = 3;\n"
        "const volatile bool is_slow, is_wide = true;\nconst volatile char mark[4];\nint calls = 0;\nint unused = 0;\n"
        "enum { TCP_CA_Open, TCP_CA_Loss = 4 };\n\n"
        "static inline struct tcp_sock *tcp_sk(const struct sock *sk)\n{\n\treturn (struct tcp_sock *)sk;\n}\n"
        "/* One more than the kernel's, so that it shows whose is called. */\n"
        "static __u32 fls64(__u64 x)\n{\n\treturn x ? 65 - __builtin_clzll(x) : 1;\n}\n\nextern void",
    )
    .replace("_license[]", "LICENSE[]")
    .replace('SEC("struct_ops")\n__u32 BPF_PROG(third', 'SEC("no-prefix")\n__u32 BPF_PROG (third')
    .replace(
        "\treturn window > 6 ? window - window / 3 : 4;",
        "\tcalls++;\n\tif (HZ < 1 || mark[0])\n\t\treturn 2;\n"
        "\treturn max(min(window - window / third_part, 10000U), fls64(4) + is_slow);",
    )
)
"""The program with what authors write, since `vmlinux.h` has types alone."""


def imported(perigee: Perigee, tmp_path: Path, text: str = MODULE) -> tuple[str, str]:
    """Import a text; return the file and what the command said."""
    (tmp_path / "mod.c").write_text(text, encoding="utf-8")
    done = perigee("cc", "import", "mod.c")
    assert done.returncode == 0, done.stderr
    return (tmp_path / done.stdout.strip()).read_text(encoding="utf-8"), done.stderr


def refused(perigee: Perigee, tmp_path: Path, *changes: tuple[str, str]) -> str:
    """Import the module with changes; return why it is refused, and leave nothing."""
    text = MODULE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (tmp_path / "mod.c").write_text(text, encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    done = perigee("cc", "import", "mod.c")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert sorted(tmp_path.iterdir()) == before
    return done.stderr


def test_a_module_becomes_a_file_that_is_its_author_s(perigee: Perigee, tmp_path: Path) -> None:
    text, said = imported(perigee, tmp_path)
    assert text.splitlines()[0] == MODULE.splitlines()[0]
    assert '#define CC_LICENSE "GPL v2"\n#include "kernel.h"' in text
    missing = [line for line in MODULE.splitlines() if line and line not in text.splitlines()]
    changed = re.compile(
        r"#include|keep __read_mostly|static bool slow|u32 steps __read|void made_init|static const u32 table"
        r"|return table|steps = |while|->last|clamp"
        r"|^\t\.|^static struct tcp_congestion_ops|^};"
    )
    assert not [line for line in missing if not changed.search(line)]
    for told in (
        "renamed: made-up is made_up",
        "parameters: keep, slow",
        "init, made_register",
        "steps",
        "left out: get_info",
        "left out: tso_segs",
        "compiles for the simulator and for the kernel",
    ):
        assert told in said
    shown = perigee("cc", "show", "made_up.c").stdout
    assert "Made up" in shown
    assert re.search(r"keep +512 +0 +2147483647 +part of the window that stays", shown)
    assert re.search(r"slow +(on|1|true)", shown)
    again = perigee("cc", "import", "mod.c")
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.parametrize("text", [MODULE, NEWER, PROGRAM, OWN], ids=["module", "newer", "program", "own"])
def test_an_imported_file_passes_its_check(perigee: Perigee, tmp_path: Path, text: str) -> None:
    _, said = imported(perigee, tmp_path, text)
    assert "compiles for the simulator and for the kernel" in said
    name = "made_up.c" if text in (MODULE, NEWER) else "thirds.c"
    done = perigee("cc", "check", name, "--sequences", "200")
    assert done.returncode == 0, done.stderr
    assert "random sequences of events break no window" in done.stdout
    assert "warning" not in done.stdout + done.stderr


def test_what_newer_kernels_have_is_mapped_and_said(perigee: Perigee, tmp_path: Path) -> None:
    made, said = imported(perigee, tmp_path, NEWER)
    assert "if (event == CA_EVENT_TX_START)\n\t\tmade_sent(sk);" in made
    assert "min_tso_segs = OP" not in made
    for told in ("renamed: made-up is made_up", "tcp_plb_*() do nothing", "cwnd_event_tx_start, a callback of newer"):
        assert told in said


def test_a_program_s_own_names_and_constants_are_its_author_s(perigee: Perigee, tmp_path: Path) -> None:
    made, said = imported(perigee, tmp_path, OWN)
    for told in (
        "parameters: third_part, is_slow, is_wide",
        "kept: calls, which nothing of the file reads",
        "kept: its own HZ, fls64, max, min, tcp_sk, in place of kernel.h's",
        "mapped: CONFIG_HZ",
        "mapped: `mark` stays as it is",
        "left out: its own an enum",
    ):
        assert told in said
    assert "#define fls64 own_fls64" in made
    assert made.index("#undef fls64") > made.index("fls64(4)")
    shown = perigee("cc", "show", "thirds.c").stdout
    assert re.search(r"third_part +3 +0 +4294967295 ", shown)
    assert re.search(r"is_wide +(on|1|true)", shown)


def test_flows_with_other_parameters_do_not_know_of_each_other(perigee: Perigee, tmp_path: Path) -> None:
    imported(perigee, tmp_path)

    def study(name: str, keeps: list[int]) -> pl.DataFrame:
        nodes = '"server", "client", "second", "third"' if len(keeps) > 1 else '"server", "client"'
        parts = [f'name = "{name}"\ntime_limit = "11 s"\nnodes = [{nodes}]\n']
        for place, keep in enumerate(keeps):
            ends = ("server client", "second third")[place]
            parts.append(link(f"link-{place}", ends, rate="10 Mbit/s", delay="20 ms", queue="50 kB"))
            parts.append(flow(f"flow-{keep}", ends, duration="10 s", cc={"name": "./made_up.c", "keep": keep}))
        (tmp_path / f"{name}.toml").write_text("\n".join(parts), encoding="utf-8")
        done = perigee("run", f"{name}.toml", "--out", name)
        assert done.returncode == 0, done.stderr
        return pl.read_parquet(tmp_path / name / "flows.parquet").select("flow", "received_bytes", "sent_packets")

    together = study("both", [200, 900])
    alone = [study(f"one-{keep}", [keep]) for keep in (200, 900)]
    assert together["sent_packets"][0] != together["sent_packets"][1]
    # The links share nothing, so that a difference is what one flow's callbacks left for the other's.
    assert (
        together.sort("flow")
        .select("flow", "received_bytes")
        .equals(pl.concat(alone).sort("flow").select("flow", "received_bytes"))
    )


def test_what_the_kernel_does_not_lend_is_refused_by_name(perigee: Perigee, tmp_path: Path) -> None:
    line = MODULE.splitlines().index("\tm->since = tcp_jiffies32;") + 1
    for inserted, said in (
        ("kfree(m);", "`kfree` is a function of the kernel that it does not lend to BPF; it takes memory of its own"),
        ("m->since = tcp_sk(sk)->tx_in_flight;", "`tx_in_flight` of `struct tcp_sock` is a patched kernel's"),
        ("m->since = nonsense;", "error: 'nonsense' undeclared"),
        ("steps = 3;", "`made_init` changes `steps`, which all connections would share"),
    ):
        assert f"mod.c:{line}: {said}" in refused(
            perigee, tmp_path, ("\n\tm->since = tcp_jiffies32;\n", f"\n\t{inserted}\n")
        )


def test_what_a_program_cannot_have_is_refused_by_name(perigee: Perigee, tmp_path: Path) -> None:
    line = PROGRAM.splitlines().index('char _license[] SEC("license") = "GPL";') + 2
    for inserted, said in (
        (
            "extern int CONFIG_TCP_CONG_BBR __kconfig;",
            "`CONFIG_TCP_CONG_BBR` is a setting of the kernel that the simulator",
        ),
        ('struct { __uint(type, 2); } cells SEC(".maps");', "it has a map; keep the state in the struct"),
        (
            "extern void bbr_init(struct sock *sk) __ksym;",
            "`bbr_init` is a function that only some kernels lend to BPF",
        ),
        ("static int param(int x)\n{\n\treturn x;\n}", "`param` is a name that kernel.h needs itself; rename it"),
        ("int last;\nstatic int again(void)\n{\n\treturn last++;\n}", "`again` changes `last`"),
    ):
        text = PROGRAM.replace("extern void", f"{inserted}\nextern void").replace(
            "> 6 ?", "> again() ?" * ("again" in inserted) or "> 6 ?"
        )
        (tmp_path / "mod.c").write_text(text, encoding="utf-8")
        done = perigee("cc", "import", "mod.c")
        assert done.returncode == 2
        at = line + 3 * ("again" in inserted)
        assert f"mod.c:{at}: {said}" in done.stderr


def test_what_is_no_module_is_refused_with_what_to_do(perigee: Perigee, tmp_path: Path) -> None:
    member = (".undo_cwnd = tcp_reno_undo_cwnd,", ".skb_marked_lost = made_init, .undo_cwnd = tcp_reno_undo_cwnd,")
    assert "`skb_marked_lost` is no callback of Linux's: it needs a patched kernel" in refused(
        perigee, tmp_path, member
    )
    assert 'mod.c:4: there is no "mine.h" beside' in refused(perigee, tmp_path, ("<net/tcp.h>", '"mine.h"'))
    for outside in ("/etc/passwd", "../mine.h"):
        assert "neither beside the file nor below" in refused(perigee, tmp_path, ("<net/tcp.h>", f'"{outside}"'))
    assert "mod.c:4: the file includes tcp.h" in refused(perigee, tmp_path, ("<net/tcp.h>", '"tcp.h"'))
    assert "is of type `charp`" in refused(perigee, tmp_path, ("module_param(keep, int", "module_param(keep, charp"))
    assert "has no `struct tcp_congestion_ops" in refused(
        perigee, tmp_path, ("struct tcp_congestion_ops made", "int made")
    )
    assert "at most 15" in refused(perigee, tmp_path, ("made-up", "a-name-of-many-letters"))
    line = MODULE.splitlines().index("static void made_avoid(struct sock *sk, u32 ack, u32 acked)") + 1
    old = (
        "made_avoid(struct sock *sk, u32 ack, u32 acked)",
        "made_avoid(struct sock *sk, u32 ack, u32 acked, u32 flight)",
    )
    said = refused(perigee, tmp_path, old)
    assert f"mod.c:{line}: `made_avoid` takes 4 arguments, and Linux's `.cong_avoid` is given 3" in said
    assert "the name is `OTHER`; write it as a text" in refused(perigee, tmp_path, ('"made-up"', "OTHER"))
    done = perigee("cc", "import", "mod.c", "--out", "nowhere/mod.c")
    assert (done.returncode, "nowhere: is no folder" in done.stderr) == (2, True)
    (tmp_path / "mod.c").unlink()
    done = perigee("cc", "import", "mod.c")
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True)


SPDX = "// SPDX-License-Identifier: GPL-2.0-or-later\n"
STATED = 'MODULE_LICENSE("GPL v2");'


@pytest.mark.parametrize(
    ("spdx", "stated", "licence", "said"),
    [
        ("GPL-2.0-only OR MIT", "", "Dual MIT/GPL", "licence: of the SPDX line, GPL-2.0-only OR MIT"),
        ("Apache-2.0", "", "Apache-2.0", "licence: Apache-2.0: it simulates; the kernel loads only GPL"),
        ("", '#if 0\nMODULE_LICENSE("GPL");\n#else\nMODULE_LICENSE("MIT");\n#endif', "MIT", "licence: MIT: it simu"),
    ],
)
def test_the_licence_is_what_the_author_states(
    perigee: Perigee, tmp_path: Path, spdx: str, stated: str, licence: str, said: str
) -> None:
    text = MODULE.replace(SPDX, f"// SPDX-License-Identifier: {spdx}\n" if spdx else "").replace(STATED, stated)
    made, told = imported(perigee, tmp_path, text)
    assert f'#define CC_LICENSE "{licence}"' in made
    assert said in told


def test_no_licence_is_assumed(perigee: Perigee, tmp_path: Path) -> None:
    table = MODULE.splitlines().index("static struct tcp_congestion_ops made __read_mostly = {")
    assert f"mod.c:{table}: the file states no licence; add" in refused(perigee, tmp_path, (SPDX, ""), (STATED, ""))
    assert "the licence is `LIC`" in refused(perigee, tmp_path, ('"GPL v2"', "LIC"))
    line = MODULE.splitlines().index(STATED) + 1
    both = f'#ifdef FREE\n{STATED}\n#else\nMODULE_LICENSE("Proprietary");\n#endif'
    assert f"mod.c:{line + 1} (mod.c:{line + 3}): the licence is" in refused(perigee, tmp_path, (STATED, both))


def test_the_kernel_s_version_decides_at_import(perigee: Perigee, tmp_path: Path) -> None:
    old = "\t#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 1, 0)\n\t.ssthresh = gone,\n#else\n\t.ssthresh = made_ssthresh,"
    text = MODULE.replace("\t.ssthresh = made_ssthresh,", f"{old}\n#endif")
    text = text.replace(
        "\n\tm->since = tcp_jiffies32;\n",
        "\n#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 0, 0)\n\tm->since = tcp_jiffies32;\n#endif\n",
    )
    made, _ = imported(perigee, tmp_path, text)
    assert "made_ssthresh(sk)" in made
    line = MODULE.splitlines().index("\t.cong_avoid = made_avoid,") + 1
    unknown = "#ifdef CONFIG_X\n\t.cong_avoid = made_avoid,\n#endif"
    assert f"mod.c:{line}: `#ifdef CONFIG_X` decides on members" in refused(
        perigee, tmp_path, ("\t.cong_avoid = made_avoid,", unknown)
    )
    assert "twice" in refused(perigee, tmp_path, (".cong_avoid = made_avoid,", ".cong_avoid = made_avoid,\n" * 2))


def test_parameters_have_the_names_and_types_of_the_module(perigee: Perigee, tmp_path: Path) -> None:
    changes = {
        "module_param(keep, int, 0644)": "module_param_named(share, keep, int, 0644)",
        "PARM_DESC(keep": "PARM_DESC(share",
        "static u32 steps": "static u64 most = 1ULL << 40;\nmodule_param(most, ullong, 0644);\nstatic u32 steps",
        "static int unused = 3;": "#define KNOB(x) module_param(x, int, 0644)\nstatic int unused = 3;\nKNOB(unused);",
    }
    text = "\ufeff" + MODULE
    for before, after in changes.items():
        text = text.replace(before, after)
    _, said = imported(perigee, tmp_path, text)
    assert "left out: KNOB ( unused ) (a parameter that a macro declares" in said
    shown = perigee("cc", "show", "made_up.c").stdout
    assert re.search(r"share +512 +0 +2147483647 +part of the window that stays", shown)
    assert re.search(rf"most +{1 << 40} +0 +{(1 << 64) - 1} ", shown)


def test_the_author_s_line_is_named(perigee: Perigee, tmp_path: Path) -> None:
    lines = MODULE.splitlines()
    table = lines.index("static struct tcp_congestion_ops made __read_mostly = {") + 1
    for member in ("\t.ssthresh = made_ssthresh,\n", "\t.undo_cwnd = tcp_reno_undo_cwnd,\n"):
        said = refused(perigee, tmp_path, (member, ""))
        assert f"mod.c:{table}: the table has no `{member.split()[0]}`" in said
    inside = ("\n\tm->since = tcp_jiffies32;\n", "\n\tstatic u32 n;\n")
    line = lines.index("\tm->since = tcp_jiffies32;") + 1
    assert f"mod.c:{line}: `made_init` has a static variable" in refused(perigee, tmp_path, inside)
    state = lines.index("struct made {") + 1
    large = (
        ("\tu32 place:1;", "\tu64 large[40];\n\tu32 place:1;"),
        ("\tBUILD_BUG_ON(sizeof(struct made) > ICSK_CA_PRIV_SIZE);", ""),
    )
    assert f"mod.c:{state}: the state is too large" in refused(perigee, tmp_path, *large)
    assert "includes kernel.h: it is written for" in refused(perigee, tmp_path, ("<net/tcp.h>", '"kernel.h"'))


def test_functions_of_another_module_come_with_its_header(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "half.h").write_text("#define HALF 2\nu32 half_of(u32 x);\n", encoding="utf-8")
    source = '#include "half.h"\nstatic u32 inner(u32 x)\n{\n\treturn x / HALF;\n}\n'
    source += "u32 half_of(u32 x)\n{\n\treturn inner(x);\n}\n"
    (tmp_path / "half.c").write_text(source + "int other(void)\n{\n\treturn kmalloc(3);\n}\n", encoding="utf-8")
    text = MODULE.replace("<net/tcp.h>", '"half.h"').replace("keep / SCALE", "keep / SCALE + half_of(0)")
    made, _ = imported(perigee, tmp_path, text)
    assert "return x / HALF;" in made
    assert "kmalloc" not in made


@pytest.mark.parametrize("command", ["check", "show"])
def test_other_commands_name_the_import(perigee: Perigee, tmp_path: Path, command: str) -> None:
    for text in (MODULE, PROGRAM):
        (tmp_path / "mod.c").write_text(text, encoding="utf-8")
        done = perigee("cc", command, "mod.c")
        assert done.returncode == 2
        assert "perigee cc import mod.c" in done.stderr


def test_a_signed_division_is_named_with_its_line(perigee: Perigee, tmp_path: Path) -> None:
    text = MODULE.replace("#define SCALE 1024", "#define SCALE 1024\n#define PART(x) ((x) / keep)")
    text = text.replace("steps = (SCALE - keep) / 3 / 200;", "steps = PART(keep - 600);")
    _, said = imported(perigee, tmp_path, text)
    line = text.splitlines().index("\tsteps = PART(keep - 600);") + 1
    assert f"the kernel would not take it:\nmod.c:{line}: error: signed division" in said
    done = perigee("cc", "check", "made_up.c", "--sequences", "2")
    assert done.returncode == 2
    both = done.stdout + done.stderr
    assert re.search(r"made_up\.c:\d+:\d+: error: signed division", both)
    assert "Stack dump" not in both


BEGINS = MODULE.replace("steps = (SCALE", "if (keep > 800)\n\t\treturn -EINVAL;\n\tsteps = (SCALE")
"""Its init refuses a parameter of more than 800."""
NOT_BEGUN = "the module `made_up` does not begin with keep=900: its init returns -22"


def test_a_module_is_not_used_with_parameters_that_its_init_refuses(perigee: Perigee, tmp_path: Path) -> None:
    imported(perigee, tmp_path, BEGINS)
    for keep in (900, 700):
        parts = [
            'name = "begun"\ntime_limit = "11 s"\nnodes = ["server", "client"]\n',
            link("link", "server client", rate="10 Mbit/s", delay="20 ms", queue="50 kB"),
            flow("flow", "server client", size="20 kB", cc={"name": "./made_up.c", "keep": keep}),
        ]
        (tmp_path / "begun.toml").write_text("\n".join(parts), encoding="utf-8")
        done = perigee("run", "begun.toml", "--out", f"results-{keep}")
        assert done.returncode == (2 if keep == 900 else 0), done.stderr
        assert (NOT_BEGUN in done.stderr) == (keep == 900)
    assert not (tmp_path / "results-900").exists()
    imported(perigee, tmp_path, BEGINS.replace("SCALE / 2;", "900;").replace("made-up", "never"))
    done = perigee("cc", "check", "never.c", "--sequences", "2")
    assert (done.returncode, "`never` does not begin with its defaults" in done.stderr) == (2, True)
    done = perigee("cc", "load", "made_up.c", "--set", "keep=900")
    assert (done.returncode, NOT_BEGUN in done.stderr) == (2, True)


CONSTANT = MODULE.replace("steps = (SCALE - keep) / 3 / 200;", "steps = 3;")
"""Its init gives a variable one constant, of which a compiler would keep a bit."""


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "text", [NEWER, PROGRAM, OWN, CONSTANT, BEGINS], ids=["module", "program", "own", "constant", "begins"]
)
def test_an_imported_file_loads(perigee: Perigee, tmp_path: Path, text: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    imported(perigee, tmp_path, text)
    name = own("i")
    done = perigee("cc", "load", "thirds.c" if text in (PROGRAM, OWN) else "made_up.c", "--as", name)
    assert done.returncode == 0, done.stderr
    unload(name, force=True)
