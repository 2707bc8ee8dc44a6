# SPDX-License-Identifier: MIT
"""GBNF: grammars of each construct that llama.cpp's documentation names, with texts that they accept and refuse, and texts for its eight example grammars."""
from dataclasses import dataclass, field


@dataclass
class Row:
    """A grammar; the texts it accepts (@yes) and refuses (@no); why llama.cpp's validator judges otherwise, if it does."""
    grammar: str
    yes: list = field(default_factory=list)
    no: list = field(default_factory=list)
    differs: str = ""


EMPTY = "llama.cpp takes a repetition of what may be empty for left recursion"
LEFT = "llama.cpp refuses left recursion"
TOKEN = "the validator has no vocabulary, and feeds characters, not tokens"

LITERALS = [
    Row('root ::= "a"', ["a"], ["", "b", "aa", "A", " a", "a\n"]),
    Row('root ::= "left" "right"', ["leftright"], ["left", "right", "left right", "rightleft", "leftrightx"]),
    Row('root ::= ""', [""], ["a", " ", '""']),
    Row('root ::= "a" "" "b"', ["ab"], ["a", "b", "a b"]),
    Row(r'root ::= "one\ntwo\tthree\rfour"', ["one\ntwo\tthree\rfour"], [r"one\ntwo\tthree\rfour", "one two three four"]),
    Row(r'root ::= "\"quoted\" back\\slash"', ['"quoted" back\\slash'], ["quoted back\\slash", r'\"quoted\" back\\slash']),
    Row(r'root ::= "\[x\]"', ["[x]"], ["x", r"\[x\]"]),
    Row(r'root ::= "7\-3"', ["7-3"], ["73", r"7\-3"]),
    Row(r'root ::= "\x41\x7a\x7E"', ["Az~"], ["Az", "az~"]),
    Row(r'root ::= "caf\xe9"', ["café"], ["cafe", "caf", "cafe\u0301"]),
    Row(r'root ::= "\u65e5\u672C"', ["日本"], ["日", "本日"]),
    Row(r'root ::= "\U0001F600\U00000041"', ["😀A"], ["😀", "😁A", "A"]),
    Row('root ::= "größe 日本 😀"', ["größe 日本 😀"], ["grosse 日本 😀", "größe 日本 😁"]),
    Row('root ::= "[a-c]*(x)|y.{2}"', ["[a-c]*(x)|y.{2}"], ["a", "abc", ""]),
    Row("root ::= \"it's # no comment\"", ["it's # no comment"], ["it's "]),
    Row('root ::= "two\nlines"', ["two\nlines"], ["two lines", "two"]),
]

CLASSES = [
    Row("root ::= [xyz]", ["x", "y", "z"], ["", "a", "xy", "[", "]"]),
    Row("root ::= [a-f]", ["a", "c", "f"], ["g", "A", "-", "`"]),
    Row("root ::= [a-cx-z0-9_]", ["b", "y", "0", "9", "_"], ["d", "w", "-", "A"]),
    Row("root ::= [NBKQR] [a-h] [1-8]", ["Ka1", "Nh8"], ["Pa1", "Ki1", "Ka9", "Ka", "a1"]),
    Row("root ::= [-a]", ["-", "a"], ["b", ""]),
    Row("root ::= [a-]", ["-", "a"], ["b", "]"]),
    Row("root ::= [+--]", ["+", ",", "-"], [".", "*"]),
    Row(r"root ::= [a\-c]", ["a", "-", "c"], ["b", "\\"]),
    Row("root ::= [a^]", ["a", "^"], ["b", ""]),
    Row("root ::= [^^]", ["a", "b", "\\"], ["^", ""]),
    Row(r"root ::= [\[\]\\]", ["[", "]", "\\"], ["a", ""]),
    Row("""root ::= ["'(|)*+?{}.#]""", ['"', "'", "(", "|", "*", "{", ".", "#"], ["a", ""]),
    Row(r"root ::= [ \t\n\r]", [" ", "\t", "\n", "\r"], ["t", "n", "", "\\"]),
    Row("root ::= [^abc]", ["d", " ", "\n", "é", "😀"], ["a", "b", "c", "", "de"]),
    Row("root ::= [^a-z]", ["A", "0", "-", "日"], ["a", "m", "z"]),
    Row("root ::= [^a-cx-z\\n]+", ["defw", "日本 "], ["da", "dz", "d\n", ""]),
    Row(r'root ::= [^\n]+ "\n"', ["a line\n", "日本\n"], ["a line", "\n", "two\nlines\n"]),
    Row(r'root ::= "\"" [^"\\\x7F\x00-\x1F]* "\""', ['"a b"', '""', '"é"'], ['"a"b"', '"\\"', '"\n"', '"\x7f"']),
    Row("root ::= [ぁ-ゟ]", ["ぁ", "ん", "ゟ"], ["ァ", "a", "゠", "\u3040"]),
    Row(r"root ::= [\u3041-\u309F]", ["ぁ", "ん", "ゟ"], ["ァ", "a", "\u3040", "\u30a0"]),
    Row(r"root ::= [\x41-\x43\xe9]", ["A", "C", "é"], ["D", "e", "è"]),
    Row(r"root ::= [\U0001F600-\U0001F64F]+", ["😀", "🙏", "😀🙏"], ["🚀", "a", ""]),
    Row("root ::= [é-ö]", ["é", "ö"], ["è", "÷", "e"]),
    Row("root ::= [a-日]", ["a", "é", "€", "日"], ["`", "月", "😀"]),
    Row("root ::= [^é日😀]", ["a", "è", "本", "😁"], ["é", "日", "😀"]),
    Row(r"root ::= [\u0080-\u07ff] [\u0800-\uffff] [\U00010000-\U0010ffff]", ["\x80ࠀ\U00010000", "\u07ff\uffff\U0010ffff"],
        ["\x7fࠀ\U00010000", "\x80\u07ff\U00010000", "\x80ࠀ\uffff"]),
    Row("root ::= .", ["a", "\n", "é", "日", "😀", " ", "."], ["", "ab", "éa"]),
    Row('root ::= "x" . . "y"', ["xaby", "xyyy", "x😀\ny"], ["xay", "xabcy", "xy"]),
    Row("root ::= .*", ["", "all\nof\tthis", "日本😀"]),
    Row("root ::= .{2,3}", ["ab", "日本語", "😀é"], ["a", "日", "abcd"]),
    Row("root ::= [.]", ["."], ["a", ""]),
]

SEQUENCES = [
    Row('root ::= "a" | "b"', ["a", "b"], ["", "ab", "c"]),
    Row('root ::= "a" "b" | "c" "d" | "e"', ["ab", "cd", "e"], ["ad", "abcd", "a", "abe"]),
    Row('root ::= "a" | "ab" | "abc"', ["a", "ab", "abc"], ["abcd", "b", "bc"]),
    Row('root ::= "a" |', ["a", ""], ["aa"]),
    Row('root ::= | "a"', ["a", ""], ["aa"]),
    Row('root ::= "a" | | "b"', ["a", "b", ""], ["ab"]),
    Row('root ::= "a" |\n  "b" |\n\n  "c"', ["a", "b", "c"], ["ab", ""]),
    Row('root ::= "a" | # first\n  # second\n  "b"', ["a", "b"], ["ab", ""]),
    Row('root ::= ("a" | "b") "c"', ["ac", "bc"], ["a", "c", "abc", "b"]),
    Row('root ::= "a" ("b" ("c" | "d") | "e") "f"', ["abcf", "abdf", "aef"], ["abf", "abef", "af", "abc"]),
    Row('root ::= (((("a"))))', ["a"], ["", "(a)"]),
    Row('root ::= ()', [""], ["a", "()"]),
    Row('root ::= "a" () "b"', ["ab"], ["a"]),
    Row('root ::= ("a" | ) "b"', ["ab", "b"], ["a", "", "aab"]),
    Row('root ::= (\n  "a"\n  "b"\n  |\n  "c"\n)', ["ab", "c"], ["a", "b", "abc"]),
    Row('root ::= ( # a comment\n  "a" # another\n\n  # and one more\n  "b"\n) "c"', ["abc"], ["ab", "ac"]),
    Row('root ::= (\r\n  "a" |\r\n  "b"\r\n)\r\n', ["a", "b"], ["ab"]),
    Row('root ::= ("a"("b")"c")[d]"e"', ["abcde"], ["abc", "abde"]),
    Row('root ::=\n  "a"', ["a"], [""]),
    Row('root::="a"|"b"', ["a", "b"], [""]),
    Row('\t root\t::=\t"a"\t"b"\t', ["ab"], ["a\tb"]),
]

REPETITIONS = [
    Row('root ::= "a"*', ["", "a", "aaaaaaa"], ["b", "ab", "aab"]),
    Row('root ::= "a"+', ["a", "aaaaaaa"], ["", "b", "ab"]),
    Row('root ::= "a"?', ["", "a"], ["aa", "b"]),
    Row('root ::= "ab"*', ["", "ab", "ababab"], ["a", "aba", "abb"]),
    Row('root ::= "ab"+ "c"', ["abc", "ababc"], ["c", "abbc"]),
    Row('root ::= "x" "ab"? "y"', ["xy", "xaby"], ["xay", "xby", "xababy"]),
    Row('root ::= [0-9]+ ("." [0-9]+)?', ["1", "10.25"], [".5", "1.", "1.2.3", ""]),
    Row('root ::= ("a" | "bc")*', ["", "abca", "bcbc"], ["b", "cb", "ac"]),
    Row('root ::= ("a" "b"?)+', ["a", "ab", "aabab"], ["", "b", "abb"]),
    Row('root ::= w ("," w)*\nw ::= [a-z]+', ["a", "ab,c,de"], ["", ",", "a,", "a,,b"]),
    Row('root ::= item* "."\nitem ::= "x" | "y"', [".", "xyx."], ["xy", "z."]),
    Row('root ::= "a"{3}', ["aaa"], ["", "aa", "aaaa"]),
    Row('root ::= "a"{1}', ["a"], ["", "aa"]),
    Row('root ::= "a"{0}', [""], ["a"]),
    Row('root ::= "x" "a"{0,0} "y"', ["xy"], ["xay"]),
    Row('root ::= "a"{2,}', ["aa", "aaaaaa"], ["", "a"]),
    Row('root ::= "a"{0,}', ["", "aaaa"], ["b"]),
    Row('root ::= "a"{1,}', ["a", "aaaa"], [""]),
    Row('root ::= "a"{2,4}', ["aa", "aaa", "aaaa"], ["a", "aaaaa", ""]),
    Row('root ::= "a"{0,2}', ["", "a", "aa"], ["aaa"]),
    Row('root ::= "a"{0,1}', ["", "a"], ["aa"]),
    Row('root ::= "a"{3,3}', ["aaa"], ["aa", "aaaa"]),
    Row('root ::= "ab"{2}', ["abab"], ["abb", "ab", "aabb"]),
    Row('root ::= ("a" | "bc"){2,3} "d"', ["aad", "abcd", "bcbcbcd"], ["ad", "aaaad", "aa"]),
    Row('root ::= [^0-9]{2} [0-9]{2,3}', ["ab12", "é日123"], ["ab1", "a12", "ab1234"]),
    Row('root ::= hex{4}\nhex ::= [0-9a-fA-F]', ["00ff", "BeEf"], ["00f", "00fg", "00ff0"]),
    Row('root ::= "a"{ 1 , 2 } "b"{ 2 } "c"{ 1 , }', ["abbc", "aabbcc"], ["abc", "aaabbc"]),
    Row('root ::= "a" * "b"\t+ "c" ?', ["b", "aabbc"], ["a", "ac"]),
    Row('root ::= ("a"\n  *\n  "b" # both\n  {2})', ["bb", "abb"], ["ab", "b"]),
    Row('root ::= "a"{2}{3}', ["a" * 6], ["a" * 5, "a" * 7, "aa", "aaa"]),
    Row('root ::= "a"{2}+', ["aa", "aaaa"], ["", "a", "aaa"]),
    Row('root ::= "a"+?', ["", "a", "aaa"], ["b"]),
    Row('root ::= ("a"{2} "b"){2}', ["aabaab"], ["aab", "aabab", "aaab"]),
    Row('root ::= ("a"? "b"?){2}', ["", "a", "abab", "ba", "bab"], ["aab" * 2, "aaa"]),
    Row('root ::= ("a"?)* "b"', ["b", "aaab"], ["", "a"]),
    Row('root ::= [ab]* "a" [ab]{3}', ["aaaa", "babbb", "bbbabab"], ["aaa", "abbbb", "bbbb"]),
    Row('root ::= "a"{100} "b"', ["a" * 100 + "b"], ["a" * 99 + "b", "a" * 101 + "b"]),
    Row('root ::= "a"{0,300}', ["", "a" * 300], ["a" * 301]),
    Row('root ::= "x" ("a" | )* "y"', ["xy", "xaaay"], ["xby"], EMPTY),
    Row('root ::= "a"?* "b"', ["b", "aab"], ["a"], EMPTY),
    Row('root ::= "a" ""* "b"', ["ab"], ["a", "aab"], "llama.cpp has nothing to repeat after an empty literal"),
    Row('root ::= "a"{0,3000}', ["a" * 3000], ["a" * 3001], "llama.cpp takes a maximum over 2000 for no maximum"),
    Row('root ::= "a"{3000}', ["a" * 3000], ["a" * 2999], "llama.cpp refuses more than 2000 repetitions"),
    Row('root ::= "a"{1,\n2}', ["a", "aa"], ["aaa"], "hob allows line ends inside of braces everywhere, llama.cpp inside of groups"),
]

RULES = [
    Row("# a comment\n\nroot ::= # here\n  item # there\n# between\nitem ::= [a-z] # a class\n# the end", ["a"], ["", "#"]),
    Row('root ::= "a" # no line end behind the comment', ["a"], ["a "]),
    Row('\n\n  root ::= b\n\n\n  b ::= "b"\n\n', ["b"], [""]),
    Row('root ::= b\r\nb ::= "b"\r\n', ["b"], [""]),
    Row('root ::= b\rb ::= "b"\r', ["b"], [""]),
    Row('b ::= "b"\nroot ::= b', ["b"], [""]),
    Row('root ::= "a"\nunused ::= "b" root', ["a"], ["b", "ba"]),
    Row('root ::= Rule rule RULE-2 r2d2\nRule ::= "1"\nrule ::= "2"\nRULE-2 ::= "3"\nr2d2 ::= "4"', ["1234"], ["1", "1134"]),
    Row('root ::= 1 - check-mate\n1 ::= "one"\n- ::= "-"\ncheck-mate ::= "mate"', ["one-mate"], ["1-mate", "one"]),
    Row('root ::= rule_123 _\nrule_123 ::= "a"\n_ ::= "b"', ["ab"], ["a"], "llama.cpp documents underscores in names and refuses them"),
    Row('root ::= "1"\nroot ::= "2"', ["2"], ["1", "12"]),
    Row('root ::= roots\nroots ::= "a"', ["a"], ["aa"]),
    Row('root ::= "(" root ")" | "x"', ["x", "(x)", "((((x))))"], ["", "()", "((x)", "(x))"]),
    Row('root ::= "a" root "b" | ""', ["", "ab", "aaabbb"], ["a", "aab", "abb", "ba"]),
    Row('root ::= [ab] root | "."', [".", "abba."], ["ab", "", ".."]),
    Row('root ::= "a" other | "."\nother ::= "b" root', [".", "ab.", "abab."], ["a.", "abb.", "aba."]),
    Row('root ::= value\nvalue ::= "[" (value ("," value)*)? "]" | [0-9]+', ["[]", "7", "[1,[2,[]],33]"], ["[", "[1,]", "[,]", "[1]]", "[1 2]"]),
    Row('root ::= sum\nsum ::= product (("+" | "-") product)*\nproduct ::= atom (("*" | "/") atom)*\natom ::= [0-9]+ | "(" sum ")"',
        ["1", "1+2*3", "(1-2)/(3+4)", "((7))"], ["", "1+", "(1", "1**2", "()", "+1"]),
    Row('root ::= s\ns ::= "(" s ")" s |', ["", "()", "(())()"], ["(", ")(", "(()"]),
    Row('root ::= "a" root "a" | "b" root "b" | "c"', ["c", "abcba", "aacaa"], ["abcab", "ac", "ca", "aba"]),
    Row('root ::= root "+" [0-9] | [0-9]', ["1", "1+2+3"], ["", "+1", "1+", "12"], LEFT),
    Row('root ::= a\na ::= b "x" | "y"\nb ::= a "z"', ["y", "yzx", "yzxzx"], ["yx", "yz", "x"], LEFT),
    Row('root ::= opt root "b" | "c"\nopt ::= "a" |', ["c", "cb", "acbb", "cbb"], ["ac", "a", "b"], LEFT),
]

TOKENS = [  # of the vocabulary that a fixture makes: <[97]> is the byte "a"
    Row("root ::= <[97]> [b-z]", ["ab", "az"], ["b", "ba", "a", "aa"], TOKEN),
    Row("root ::= <[97]>{2,3} <[98]>?", ["aa", "aaab"], ["a", "ab", "aaaa"], TOKEN),
    Row("root ::= (<[97]> | <[98]>)* \"!\"", ["!", "abba!"], ["ac!", "ab"], TOKEN),
    Row("root ::= !<[97]>*", ["", "bcd", "日本"], ["a", "bca"], TOKEN),
    Row("root ::= [x] !<[98]> [y]", ["xay", "x\ny"], ["xby", "xy", "xaay"], TOKEN),
    Row('root ::= "a" <|im_end|>', [], ["a", "", "a<|im_end|>"], TOKEN),
    Row('root ::= "a" | <|im_end|> "b"', ["a"], ["b", "ab", "<|im_end|>b"], TOKEN),
    Row("root ::= !<|im_end|>+", ["a", "all of it"], [""], TOKEN),
]

GROUPS = {"literals": LITERALS, "classes": CLASSES, "sequences": SEQUENCES, "repetitions": REPETITIONS, "rules": RULES, "tokens": TOKENS}

# Grammars that are refused; those that llama.cpp takes have a reason, and None means that it must not be asked.
INVALID = [
    ("", ""), ("# only a comment", ""), ('other ::= "a"', ""), ("root", ""), ("root ::= missing", ""), ('root = "a"', ""), ('root : "a"', ""),
    ('::= "a"', ""), ('root ::= "a', ""), ('root ::= "a\\"', ""), ("root ::= [a", ""), ("root ::= [a-", ""), ('root ::= ("a"', ""),
    ('root ::= "a")', ""), ('root ::= ("a" | ("b")', ""), ("root ::= ]", ""), ("root ::= }", ""), ('root ::= "a" }', ""), ("root ::= *", ""),
    ('root ::= | + "a"', ""), ('root ::= (? "a")', ""), ("root ::= {2}", ""), ('root ::= "a"{}', ""), ('root ::= "a"{,}', ""),
    ('root ::= "a"{,3}', ""), ('root ::= "a"{x}', ""), ('root ::= "a"{2', ""), ('root ::= "a"{2;3}', ""), ('root ::= "a"{2,3', ""),
    ('root ::= "a"{-1}', ""), (r'root ::= "\q"', ""), (r"root ::= [\d]", ""), (r"root ::= [\^]", ""), (r'root ::= "\x4"', ""), (r'root ::= "\xg0"', ""),
    (r'root ::= "\u12"', ""), (r'root ::= "\U0001F60"', ""), ('root ::= "a"\n"b"', ""), ('root ::= "a"\n| "b"', ""), ('root ::= ("a")\n*', ""),
    ('root ::= other other ::= "a"', ""), ("root ::= 'a'", ""), ("root ::= /a/", ""), ("root ::= a, b", ""), ('root ::= "a" ;', ""),
    ('root ::= "a" & "b"', ""), ('größe ::= "a"', ""), ("root ::= !", ""), ('root ::= !"a"', ""), ("root ::= ![a]", ""), ("root ::= <", ""),
    ("root ::= <[12]", ""), ("root ::= <[x]>", ""), ("root ::= <[]>", ""), ("root ::= <no such token>", ""),
    ("root ::= []", "an empty class is nothing in llama.cpp"),
    ("root ::= [^]", "an empty class is nothing in llama.cpp"),
    ("root ::= [z-a]", "a range that ends before it begins has no character in llama.cpp"),
    (r'root ::= "\uD800"', "half of a surrogate pair is no character; llama.cpp waits for it in vain"),
    (r'root ::= "\U00110000"', "no such character; llama.cpp waits for it in vain"),
    ('root ::= "a" root', "no text satisfies it; llama.cpp says so after the text"),
    ("root ::= <[4000000000]>", "the model has no such token; the validator has no vocabulary"),
    ('root ::= "a"{2,1}', None),  # llama.cpp makes 2 ** 64 rules
    ("root ::= root", ""),
]
