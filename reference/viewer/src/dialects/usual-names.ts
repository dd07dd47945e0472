/** Which files may be logs of other programs, by their names alone. */

import type { Hints } from "../../../typescript/page/selection.js";
import { namePattern } from "./dialect.js";
import { USUAL_NAMES } from "./tables.js";

const LOGS = USUAL_NAMES.map(namePattern);

export const HINTS: Hints = {
  isLog: (name) => LOGS.some((pattern) => pattern.test(name)),
};
