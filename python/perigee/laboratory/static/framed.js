// Before each report that the page shows under its own navigation, also one that an earlier version made: the frame is as
// high as the report, so that nothing scrolls inside it; the page moves to what is linked here, and opens what is linked
// elsewhere. It stands before the report's own policy, which lets only that report's script run.
if (parent !== window) {
  const root = document.documentElement;
  root.classList.add("framed");
  const tell = (perigee, said) => parent.postMessage({ perigee, ...said }, "*");
  new ResizeObserver(() => tell("height", { height: root.getBoundingClientRect().height })).observe(root);
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]:not([download])");
    if (!link) return;
    event.preventDefault();
    const target = link.hash && document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (target) tell("scroll", { top: target.getBoundingClientRect().top });
    else tell("open", { href: link.href });
  });
}
