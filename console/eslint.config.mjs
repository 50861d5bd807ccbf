// The strict rules of typescript-eslint, with types. A rule that is off or relaxed has its reason here.
import tseslint from "typescript-eslint";

export default tseslint.config(...tseslint.configs.strictTypeChecked, {
  languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
  rules: {
    // Short handlers such as `() => setOpen(true)` return nothing that anyone uses.
    "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true, ignoreVoidOperator: true }],
    // Numbers have one obvious text.
    "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    // The runner of Node waits for its tests by itself.
    "@typescript-eslint/no-floating-promises": ["error", { allowForKnownSafeCalls: [{ from: "package", package: "node:test", name: ["test"] }] }],
    // The objects that hooks return have closures, not methods: nothing in them uses `this`.
    "@typescript-eslint/unbound-method": "off",
    // Types promise more than there is: `navigator.clipboard` is missing over plain http, a signal is aborted while its request runs.
    "@typescript-eslint/no-unnecessary-condition": "off",
    // `noUncheckedIndexedAccess` needs `!` where the index was checked a line before.
    "@typescript-eslint/no-non-null-assertion": "off",
  },
}, {
  // The fields of an object type or an input type: `Object.values` of such a union has no type.
  files: ["src/pages/ask/docsModel.ts"],
  rules: Object.fromEntries(["argument", "assignment", "member-access"].map((kind) => [`@typescript-eslint/no-unsafe-${kind}`, "off"])),
});
