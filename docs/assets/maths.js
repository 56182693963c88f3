// Renders the formulas that pymdownx.arithmatex marked. KaTeX 0.19.1 (MIT licence, see katex/LICENSE) is part of the site; of
// its fonts only the woff2 files are, and katex.min.css names only these.
document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll(".arithmatex")) {
    renderMathInElement(formula, {
      delimiters: [
        { left: "\\[", right: "\\]", display: true },
        { left: "\\(", right: "\\)", display: false },
      ],
      throwOnError: false,
    });
  }
});
