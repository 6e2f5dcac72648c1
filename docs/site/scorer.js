// Search: where the words are in the text alone, guides come before pages of single names.
var Scorer = {
  score: ([docname, , , , score, , kind]) => score + (kind === "text" && docname.startsWith("generated/api/") ? -1 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
