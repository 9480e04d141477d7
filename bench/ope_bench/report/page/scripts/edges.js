/* A table that goes on beyond its edge says so, at that edge. */
function edges(scroll) {
  const hidden = scroll.scrollWidth - scroll.clientWidth;
  scroll.parentNode.classList.toggle("more-left", scroll.scrollLeft > 2);
  scroll.parentNode.classList.toggle("more-right", hidden - scroll.scrollLeft > 2);
}

const resized = new ResizeObserver((entries) => entries.forEach((entry) => edges(entry.target)));

function watchEdges(root) {
  resized.disconnect();
  root.querySelectorAll(".scroll").forEach((scroll) => {
    scroll.addEventListener("scroll", () => edges(scroll), { passive: true });
    resized.observe(scroll);
  });
}
