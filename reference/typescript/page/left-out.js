// Replaces the checker where the site was built without npm.
const place = document.getElementById("toyspec-checker");
if (place) {
  const note = document.createElement("p");
  note.className = "tc-left-out";
  note.textContent =
    "This copy of the site was built without the checker, since npm was not there. " +
    "Check on the command line instead: toyspec check FILE.";
  place.replaceChildren(note);
}
