const tip = document.getElementById("tip");
function point(event) {
  const at = event.target.closest("[data-tip]");
  document.querySelectorAll(".hot").forEach(line => line.classList.remove("hot"));
  tip.style.display = at ? "block" : "none";
  if (!at) return;
  const line = at.closest("[data-trial]");
  if (line) document.querySelectorAll(".line[data-trial]").forEach(other =>
    other.classList.toggle("hot", [line.dataset.trial, line.dataset.twin].includes(other.dataset.trial)));
  tip.textContent = at.dataset.tip;
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}
document.addEventListener("pointerover", point);
document.addEventListener("click", point);
function unfold() {
  const section = location.hash && document.getElementById(location.hash.slice(1));
  const folded = section && section.querySelector("details");
  if (folded) { folded.open = true; section.scrollIntoView(); }
}
addEventListener("hashchange", unfold);
addEventListener("beforeprint", () => document.querySelectorAll("section > details").forEach(one => one.open = true));
unfold();
