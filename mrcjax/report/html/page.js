"use strict";
// Tables sort by the column whose head is pressed; what has no value stays last.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const falls = head.getAttribute("aria-sort") === "ascending";
      const isNumber = head.classList.contains("number");
      const order = new Intl.Collator("en", { numeric: true }).compare;
      const key = (row) => row.cells[column].dataset.sort;
      const sorted = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const ahead = isNumber ? Number(x) - Number(y) : order(x, y);
        return falls ? -ahead : ahead;
      });
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      body.append(...sorted);
    });
  });
}
for (const input of document.querySelectorAll(".filter input")) {
  const body = input.closest(".table").querySelector("tbody");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
