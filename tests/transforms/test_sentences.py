"""Sentences: where they end, when two are one, how they are judged, what is cut."""

import importlib.util
import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.record import RecordError
from transforms.sentence_counts import count_forms
from transforms.sentence_features import features
from transforms.sentence_forms import unit_forms
from transforms.sentence_interning import Interner
from transforms.sentence_lexicon import learnt_weights
from transforms.sentence_quality import (
    FEATURES,
    default_weights,
    in_context,
    qualities,
    read_weights,
)
from transforms.sentence_split import split_units
from transforms.sentence_words import DATE_WORDS
from transforms.sentences import SentenceSettings, removal_spans, removed_forms
from transforms.text import string_buffers


def sentences(text, **options):
    units = split_units(pa.array([text]), **options)
    return [bytes(units.data[row[1] : row[2]]).decode() for row in units.places]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("He came. She left! Why? Nobody knows.", 4),
        ("Mr. Smith met Dr. Jones at 3.14 p.m. on Jan. 5.", 1),
        ("J. K. Rowling wrote it. It sold well.", 2),
        ("The U.S. law applies, e.g. here and i.e. there.", 1),
        ("See www.example.com/a.b?c=d for main.py v1.2.3 today.", 1),
        ('"Stop!" he said. "Why?" she asked.', 2),
        ("He said (quietly.) Then he left.", 2),
        ("Well... maybe not. Yes.", 2),
        ("Well... Perhaps it is.", 2),
        ("1. First item of the list.", 1),
        ("今天很冷。明天呢？“走吧！”他说。", 4),
        ("他说：“你好。”然后走了……她没有回答。", 3),
        ("我们用Python 3.11写程序。It works. 很好！", 3),
        ("你好!再见?好的.走吧", 4),
        ("圆周率约为3.14。", 1),
        ("a\nb\n\n  c  ", 3),
        ("no end", 1),
        ("   \n\n", 0),
        ("", 0),
    ],
)
def test_splitter(text, found):
    """Sentences end where a reader of English or Chinese says so; abbreviations end none."""
    parts = sentences(text)
    assert len(parts) == found, parts
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)
    assert all(part == part.strip() for part in parts)


def test_lines_of_code_and_structure_have_no_sentences():
    """Fences, indents, tables, headings, comments and lines with code signs are left alone."""
    text = "\n".join(
        [
            "# Heading", "Title", "=====", "```", "Anything here.", "```", "    x = 1", "\tx = 1",
            "| a | b |", "a | b", "---|---", "# comment", "call();", "use `git add`", "f() is",
            "if (x) { y }", "</div>", "<link rel=x>", ">>> x = 1", "... x", ">>>", "@dataclass",
            "@final(True)", "Kept line.", "　　段首缩进的一句。",
        ]
    )  # fmt: skip
    assert sentences(text) == ["Kept line.", "段首缩进的一句。"]
    assert sentences("...and so on\n@home or away\n> quoted") != []


def test_paragraphs_are_lines():
    """With ``sentences=False`` a line is one unit."""
    assert sentences("One. Two.\n\n三。四。", sentences=False) == ["One. Two.", "三。四。"]


def test_wrapped_sentences_are_marked():
    """Halves of a sentence that is wrapped are no sentences; lines of a menu are."""
    wrapped = "This is a long line of a text that someone wrapped at some\ncolumn. Next one."
    units = split_units(pa.array([wrapped]))
    assert units.places[:, 5].tolist() == [1, 1, 0]
    units = split_units(pa.array(["Home\nabout us\ncontact"]))
    assert not units.places[:, 5].any()


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        # The second half is indented like code, and is no sentence.
        ("2. Redistributions in binary form must reproduce the above\n    notice. Next.", [1]),
        (
            "IN NO EVENT SHALL THE COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM\nOR OTHER LIABILITY.",
            [1, 1],
        ),
        (
            "IN NO EVENT SHALL THE COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM\nOr other liability.",
            [0, 0],
        ),
        ("Please read the terms of use of this site carefully today.\nand go on", [0, 0]),
        ("Please read the terms of use of this site carefully today\n\nand go on", [0, 0]),
    ],
)
def test_halves_by_capitals_and_before_indents(text, marks):
    """Legal notices in capitals and items with hanging indents are wrapped sentences, too."""
    assert split_units(pa.array([text])).places[:, 5].tolist() == marks


def oracle_form(text):
    """Return the form of a sentence without a label, by regular expressions and unicodedata."""
    out, word = [], ""

    def close():
        nonlocal word
        if word:
            digit = any(c in "0123456789" for c in word)
            date = 2 <= len(word) <= 9 and word in DATE_WORDS
            out.append("0" if digit or date else word)
        word = ""

    for character in text:
        category = unicodedata.category(character)
        if category == "Cf":
            continue
        if category[0] in "LMN" or category == "Pc":
            if "\u4e00" <= character <= "\u9fff":
                close()
                out.append(character)
            else:
                word += character.casefold()
            continue
        close()
        out.append(" ")
    close()
    joined = ""
    pending = False
    for item in out:
        if item == " ":
            pending = True
            continue
        wide = "\u4e00" <= item <= "\u9fff"
        if (
            item == "0"
            and joined.endswith("0")
            and (joined[-2:-1] in ("", " ") or joined[-2] >= "\u2e80")
        ):
            pending = False
            continue
        if pending and joined and not wide and joined[-1] < "\u2e80":
            joined += " "
        pending = False
        joined += item
    return joined


WORDS = st.sampled_from(
    [
        "Hello",
        "WORLD",
        "straße",
        "12",
        "3a",
        "May",
        "Monday",
        "天",
        "年",
        "x_y",
        "été",
        "Ünï",
        "marché",
    ]
)
GLUE = st.sampled_from([" ", ", ", "-", " | ", "  ", "(", "》"])


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(WORDS, GLUE), min_size=1, max_size=8))
def test_forms_against_an_oracle(parts):
    """Two sentences have one hash just when their forms, by Python, are equal; sizes agree."""
    text = "".join(word + glue for word, glue in parts).strip()
    other = text.upper() if "ß" not in text else text
    units = split_units(pa.array([text, other]), sentences=False)
    if len(units) != 2:
        return
    forms = unit_forms(units)
    assert (forms.hashes[0] == forms.hashes[1]) == (oracle_form(text) == oracle_form(other))
    assert forms.sizes[0] == len(oracle_form(text))
    assert forms.chars[0] == len(text.strip())


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("Copyright 2021 Acme.", "copyright 1999, ACME", True),
        ("Posted on May 5, 2020", "Posted on 12 January 2019", True),
        ("上一篇：甲乙丙", "上一篇: 丁戊", True),
        ("责任编辑：李明", "责任编辑：王小红", True),
        ("发布时间：2021-03-04 10:22", "发布时间：2020-1-2 8:00", True),
        ("Posted by John", "Posted by Mary Ann", True),
        ("上一篇：他写完了。", "上一篇：她没有写。", False),
        ("2021年3月4日讯", "1999年12月31日讯", True),
        ("He has two dogs.", "He has two cats.", False),
        ("定义：质数", "定义：合数", False),
    ],
)
def test_what_counts_as_one(one, two, same):
    """Dates, numbers, case and punctuation do not part sentences, nor what follows a label."""
    forms = unit_forms(split_units(pa.array([one, two])))
    assert (forms.hashes[0] == forms.hashes[1]) == same


def test_interner_numbers_like_a_dict():
    """Numbers are those of a dict that is filled in order, over several calls."""
    rng = np.random.default_rng(5)
    interner, known = Interner(), {}
    for _ in range(20):
        hashes = rng.integers(1, 4000, 700).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        counted = rng.random(700) < 0.9
        numbers, new = interner.add(hashes, counted)
        fresh = []
        for k, value in enumerate(hashes.tolist()):
            if counted[k] and value not in known:
                known[value] = len(known)
                fresh.append(k)
        want = [known[v] if c else -1 for v, c in zip(hashes.tolist(), counted, strict=True)]
        assert numbers.tolist() == want
        assert new.tolist() == fresh
    assert len(interner) == len(known)


def test_counts_are_of_distinct_kept_documents():
    """Documents, occurrences, characters, first document and values agree with plain Python."""
    rng = np.random.default_rng(8)
    sizes = rng.integers(0, 9, 60)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    units = rng.integers(-1, 12, offsets[-1]).astype(np.int32)
    chars = rng.integers(1, 90, offsets[-1]).astype(np.int32)
    kept, rank = rng.random(60) < 0.7, rng.integers(0, 9, 60)
    value = np.where(rng.random(60) < 0.5, rng.random(60), np.nan)
    alone = rng.random(offsets[-1]) < 0.6
    found = count_forms(12, offsets, units, chars, kept, rank, value, alone)
    for form in range(12):
        having = [d for d in np.flatnonzero(kept) if form in units[offsets[d] : offsets[d + 1]]]
        places = [u for d in having for u in range(offsets[d], offsets[d + 1]) if units[u] == form]
        assert found.documents[form] == len(having)
        assert found.occurrences[form] == len(places)
        assert found.chars[form] == chars[places].sum()
        assert found.alone[form] == alone[places].sum()
        edges = {
            u
            for d in np.flatnonzero(sizes >= 8)
            for u in (offsets[d], offsets[d] + 1, offsets[d + 1] - 2, offsets[d + 1] - 1)
        }
        assert found.edges[form] == sum(alone[u] and u in edges for u in places)
        first = min(having, key=lambda d: (rank[d], d))
        assert found.first[form] == first
        assert found.unit[form] == list(units[offsets[first] : offsets[first + 1]]).index(form)
        values = [round(value[d] * 1e6) for d in having if not np.isnan(value[d])]
        assert (found.value[form], found.valued[form]) == (sum(values), len(values))


def test_rule_thresholds():
    """Frequent and poor goes; extreme goes whatever its quality, unless it is short."""
    s = SentenceSettings()
    count = np.array([10, 11, 11, 100_000, 100_001, 100_001])
    quality = np.array([0.1, 0.1, 0.9, 0.9, 0.9, 0.9])
    weight = np.array([40, 40, 40, 40, 40, 8])
    frequent, extreme = removed_forms(count, quality, weight, 5000, s)
    assert frequent.tolist() == [False, True, False, False, False, False]
    assert extreme.tolist() == [False, False, False, False, True, False]
    assert s.frequent_above(5_000_000) == 50
    assert s.extreme_above(500_000_000) == 500_000


def cut(text, bad):
    """Return the text without the sentences in ``bad``."""
    texts = pa.array(["before", text, "after"])
    units = split_units(texts)
    offsets, _ = string_buffers(texts)
    words = [bytes(units.data[row[1] : row[2]]).decode() for row in units.places]
    removed = np.array([word in bad for word in words])
    empty = unit_forms(units).sizes == 0
    number, start, end = removal_spans(units, offsets, removed, empty)
    assert (number == 1).all()
    assert (start < end).all()
    assert (end[:-1] <= start[1:]).all()
    for first, last in zip(start[::-1].tolist(), end[::-1].tolist(), strict=True):
        text = text[:first] + text[last:]
    return text


@pytest.mark.parametrize(
    ("text", "bad", "left"),
    [
        ("A b. X y. C d.", ["X y."], "A b. C d."),
        ("A b. X y.\nC d.", ["X y."], "A b.\nC d."),
        ("X y. A b.\nC d.", ["X y."], "A b.\nC d."),
        ("A b.\nX y.\nC d.", ["X y."], "A b.\nC d."),
        ("A b.\n\nX y.\n\nC d.", ["X y."], "A b.\n\nC d."),
        ("A b.\n\nX y.\nZ z\n\nC d.", ["X y.", "Z z"], "A b.\n\nC d."),
        ("X y.\n\nA b.", ["X y."], "A b."),
        ("A b.\n\nX y.\n", ["X y."], "A b."),
        ("A b.\n  X y.  \n  C d.", ["X y."], "A b.\n  C d."),
        ("甲乙。版权所有。丙丁。", ["版权所有。"], "甲乙。丙丁。"),
        ("甲乙。\n版权所有。\n丙丁。", ["版权所有。"], "甲乙。\n丙丁。"),
        ("X y.", ["X y."], ""),
        ("A b. X y. Z z. C d.", ["X y.", "Z z."], "A b. C d."),
        ("é ü. X y. 天。", ["X y."], "é ü. 天。"),
    ],
)
def test_what_is_cut(text, bad, left):
    """What is left reads on: no doubled blanks inside a line, no doubled blank lines."""
    assert cut(text, bad) == left


HELD_OUT_PROSE = """
Rome was not built in a day.
A bird in the hand is worth two in the bush.
You can lead a horse to water, but you cannot make it drink.
The road to hell is paved with good intentions.
Beauty is in the eye of the beholder.
The greatest glory in living lies not in never falling, but in rising every time we fall.
That's one small step for man, one giant leap for mankind.
Power tends to corrupt, and absolute power corrupts absolutely.
An acid is a molecule or ion capable of donating a proton.
A metaphor is a figure of speech that refers to one thing by mentioning another.
Gross domestic product is the total market value of all goods produced in a country.
A noun is a word that names a person, place, thing or idea.
The defendant pleaded not guilty to all charges.
This Regulation shall be binding in its entirety and directly applicable in all Member States.
Neither party shall be liable for any failure caused by circumstances beyond its control.
The licensee shall indemnify and hold harmless the licensor against all claims.
No one may be compelled to belong to an association.
The President shall hold office during a term of four years.
Time shall be of the essence of this contract.
She was not at home when the letter came.
"Come in," said the old man, and he closed the door behind them.
The train left the station at half past six.
Wash the rice until the water runs clear.
The square of the hypotenuse is equal to the sum of the squares of the other two sides.
塞翁失马，安知非福。
滴水之恩，当涌泉相报。
近朱者赤，近墨者黑。
欲穷千里目，更上一层楼。
读书破万卷，下笔如有神。
学而不思则罔，思而不学则殆。
三个臭皮匠，顶个诸葛亮。
生于忧患，死于安乐。
本法所称合同，是指民事主体之间设立、变更、终止民事法律关系的协议。
公民有依照法律纳税的义务。
当事人应当按照约定全面履行自己的义务。
行为人没有代理权而订立的合同，未经被代理人追认的，对被代理人不发生效力。
被告人有权获得辩护。
本规定自2020年1月1日起施行。
牛顿第一定律是指物体在不受外力作用时保持静止或匀速直线运动状态。
元素是具有相同质子数的一类原子的总称。
我爱我的祖国。
月亮从东边升起来了。
孩子们在操场上高兴地跑来跑去。
In this document, the key words "MUST" and "MAY" are to be interpreted as described in RFC 2119 and RFC 8174.
Where the carcase is cut, the parts shall be marked.
This Act comes into force on the day on which it is passed.
Every person has the right to freedom of expression.
The court held that the contract was void.
In witness whereof, the parties have signed this agreement.
Member States shall communicate to the Commission the text of the main provisions of national law.
The reasons are set out below.
A penny saved is a penny earned.
Still waters run deep.
No news is good news.
Don't judge a book by its cover.
The best things in life are free.
Seek and ye shall find.
Home is where the heart is.
You reap what you sow.
Veni, vidi, vici.
Et tu, Brute?
War is peace, freedom is slavery, ignorance is strength.
The child is father of the man.
Cogito, ergo sum.
In God we trust.
We shall fight on the beaches.
Government of the people, by the people, for the people, shall not perish from the earth.
A cell is the basic unit of life.
An algorithm is a finite sequence of instructions.
The sum of two odd numbers is even.
A website is a collection of web pages under one domain name.
A cookie is a small piece of data that a server sends to a browser.
The First World War lasted from 1914 to 1918.
The treaty was signed on 28 June 1919.
In 1969 two men walked on the Moon.
The population was 12,300 at the 2010 census.
He was an American politician and lawyer.
It is found in Brazil and Peru.
The club plays its home games at the city stadium.
The station is served by local trains.
The author thanks two anonymous referees for their comments.
Written informed consent was obtained from all patients.
Error bars show the standard error of the mean.
Press the button to start the machine.
Click the icon to open the file.
Select the files that you want to copy.
Boil the eggs for ten minutes.
Cover and let stand for an hour.
Let us pray.
Amen, I say to you.
He read the letter twice.
"Follow me," said the guide.
"Thank you," she said.
I will follow you wherever you go.
Please be seated.
What is to be done?
Long live the King!
The doctor advised him to rest.
The share price fell by two percent.
The newspaper was first published in 1851.
The search committee met on Monday.
The editor of the journal resigned.
The bill was read a second time.
本法自2021年1月1日起施行。
本条例自公布之日起30日后施行。
本办法由教育部负责解释。
国家保护公民的合法的收入。
一切权力属于人民。
法律面前人人平等。
任何单位和个人不得非法转载、使用他人作品。
著作权人享有署名权和发表权。
依照前款规定处罚。
合同自双方签字之日起生效。
申请人应当提交下列材料。
有下列情形之一的，应当予以撤销。
本判决为终审判决。
公安机关应当自受理之日起三日内作出决定。
玉不琢，不成器。
知己知彼，百战不殆。
学如逆水行舟，不进则退。
勿以恶小而为之，勿以善小而不为。
良药苦口利于病，忠言逆耳利于行。
桃李不言，下自成蹊。
江山如此多娇，引无数英雄竞折腰。
两岸猿声啼不住，轻舟已过万重山。
不识庐山真面目，只缘身在此山中。
一年之计在于春，一日之计在于晨。
人非圣贤，孰能无过。
天生我材必有用。
冬天来了，春天还会远吗？
给我一个支点，我就能撬动地球。
中国人民站起来了。
团结就是力量。
改革开放是决定当代中国命运的关键一招。
1921年7月，中国共产党成立。
1945年8月15日，日本宣布无条件投降。
1983年9月20日国务院发布
唐朝定都长安。
台风于当晚登陆福建沿海。
北京时间比格林尼治时间早八小时。
互联网是由许多网络相互连接而成的。
网站是一组相关网页的集合。
新闻是对新近发生的事实的报道。
编辑是对作品进行选择和加工的工作。
地壳由岩石组成。
平面内两条直线不相交就是平行。
函数的导数描述了函数的变化率。
本品为处方药。
请遵医嘱。
用温水送服。
切好的肉用料酒腌制片刻。
他关上门，慢慢走下楼梯。
“谢谢您。”孩子小声说。
她沉默了很久。
我们在车站分手了。
风停了，月亮出来了。
大家都笑了起来。
这是一个真实的故事。
他出生于湖南省湘潭县。
该书于1998年出版。
该站位于上海市浦东新区。
本届会议的主题是和平与发展。
记者从会议上获悉，今年粮食总产量再创新高。
""".strip().splitlines()

HELD_OUT_FRAME = """
Home / Shop / Men / Jackets
About Us | Careers | Press | Contact Us
Menu Search Subscribe Sign In
Our website uses cookies and similar technologies to give you a better experience.
We value your privacy and use cookies to analyze our traffic.
By clicking Accept, you consent to the use of cookies.
Sign up to get our daily newsletter in your inbox.
Don't forget to subscribe to our YouTube channel!
Subscribe today and get 50% off your first year.
Copyright (c) 2022 Northern Times. All rights reserved.
© 2020 Globe Media Ltd.
Share this post on Twitter or Facebook.
Share this article:
Tweet Share Email Print
Follow us on Twitter and Facebook for the latest updates.
Click here for more news
Click here to subscribe to our newsletter.
Posted by editor on 14 June 2016 | 3 comments
Last modified on Tuesday, 12 March 2019 10:14
This article appeared in the print edition under the headline above.
Source: Associated Press
Tags: football, cup, final
Filed Under: Health
Related posts
Previous post: A trip to the lake
Next article
Log in to leave a comment.
All comments are moderated before publication.
Contact our newsroom at news@example.org
Terms of Use | Privacy Policy | Sitemap
Powered by vBulletin
Download our free mobile app
版权所有 某某晚报社 未经书面授权不得转载
Copyright 2018 某某网 All Rights Reserved
本网站所有内容未经授权不得转载。
责任编辑：孙丽 审核：赵强
（编辑：吴敏）
来源：新京报
来源：中国青年报 2019-08-07
上一篇：春季植树活动圆满结束
下一篇：没有了
点击这里查看详情
点击图片进入下一页
点击关注官方微博
浏览次数：120次
发布时间：2018年05月06日 来源：办公室
当前位置：网站首页 > 新闻动态
首页 | 新闻 | 视频 | 论坛
扫描二维码关注公众号
分享到微信朋友圈
打印 收藏 关闭
更多精彩内容请下载客户端。
转载请注明来源。
相关文章推荐
粤ICP备09876543号
本站声明：转载内容如涉及侵权请联系我们删除。
Homepage
News Sport Weather Travel TV
Home » Recipes » Desserts » Cakes
Go to content
Open navigation
We use cookies and other tracking technologies. Learn more about our privacy policy.
By clicking OK you agree to the storing of cookies on your device.
Cookie consent
Reject all
Sign up for breaking news emails
Get our weekly digest delivered straight to your mailbox
Subscribe for $1 a week
Please subscribe to keep reading.
Support our journalism with a subscription
Copyright 2011 The Springfield Times Company
© Copyright 2020, Bluebird Publishing. All rights reserved
Copyright (C) 2005-2010 Jane Roe
All rights reserved. No reproduction without permission.
Share
Share this page
Share this video
Share this on Twitter
Tell your friends about this article
Page 9
Page 31 of 64
- 7 -
Pages: 1 2 3
404 - File or directory not found.
HTTP 404: Page not found
Oops, we can't find that page.
The page you requested is no longer here.
Find out more about cookies
Find out how we use your data
More information
Read the full story
Read the rest of this entry »
View the original article
Edition: Asia Pacific
Print edition, page B4, March 12 2010
Source: Bloomberg News
Editor: Peter Hall
Editing by Susan Fenton
Compiled by Anna Lee
Photo courtesy of Tom Baker
By Mark Twain, Staff Writer
Published 4:05 pm, Friday, May 9, 2014
Last update: 2016-02-11
Comments (7)
Post a comment
No comments yet
Log in
Login | Register
Search
Contact
Privacy
Next
Older post
Related stories
Tags: science, space
Print
Top
首页 > 资讯 > 行业动态
网站首页 公司简介 产品展示 联系我们
您所在的位置：首页 - 新闻
导航
菜单
返回主页
版权所有 某某大学 2013
版权归原作者所有，如有异议请联系本站
Copyright 2009-2016 某某网 版权所有
本报网络版权所有，未经书面许可不得转载
责任编辑 刘芳
责任编辑：李娜 来源：央视网
编辑 / 赵雷
【编辑：田博群】
编辑：张明 校对：王静
责编 周红
来源：澎湃新闻
来源 | 人民日报
转自：新华网
信息来源：办公室
作者：李华 摄影：王强
点击：532
点击数： 20
点击量：1.2万
点击图片查看大图
点击下方链接
阅读：221次
浏览：88 次
上一篇：我校举行开学典礼
下一篇：关于开展消防演练的通知
上一篇：无 下一篇：无
下一篇
上一页 下一页
分享到：微博 QQ 微信
分享到新浪微博
分享给朋友
分享：
第02版：评论
第07版：广告
第11版 国际
第 4 页
第3页/共8页
- 3 -
共 6 页，当前第 2 页
404 Not Found 页面不存在
对不起，您要找的页面不存在！
抱歉，该页面已被删除或不存在。
订阅
订阅本刊
欢迎订阅
本网站使用Cookies以提升您的体验
接受所有Cookie
了解更多
更多
查看详情
发布时间：2020-10-10
2018-03-02 10:20 来源：新华社
扫码下载APP
关注我们
相关新闻：
关闭
ICP备案：浙ICP备10200000号
""".strip().splitlines()


def quality_of(lines):
    units = split_units(pa.array(lines), sentences=False)
    assert len(units) == len(lines)
    labelled = unit_forms(units).labelled
    return qualities(units, np.arange(len(units)), labelled, default_weights())


@pytest.mark.parametrize(("lines", "good"), [(HELD_OUT_PROSE, True), (HELD_OUT_FRAME, False)])
def test_quality_on_sentences_it_was_not_fitted_on(lines, good):
    """The built-in model tells prose from the frame of a page on sentences it has not seen."""
    fitted = Path("scripts/sentence_quality")
    seen = {line for file in fitted.glob("*.txt") for line in file.read_text().splitlines()}
    assert not seen & set(lines)
    quality = quality_of(lines)
    wrong = [(q, s) for q, s in zip(quality, lines, strict=True) if (q >= 0.5) != good]
    assert len(wrong) <= 0.02 * len(lines), wrong


def fitting_script():
    """Return the script that fits the model, as a module."""
    path = Path("scripts/fit_sentence_quality.py")
    spec = importlib.util.spec_from_file_location("fit_sentence_quality", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(not Path("../shared/data/corpus").is_dir(), reason="needs real texts")
def test_weights_are_those_that_the_script_fits():
    """The weights in the code and the lexicon are reproduced by the script from its data."""
    weights, learnt = fitting_script().fit(Path("../shared/data"))
    np.testing.assert_allclose(list(weights.values()), default_weights(), atol=0.02)
    known = learnt_weights()
    assert len(known) == pytest.approx(len(learnt), rel=0.01)
    apart = [abs(weight - known.get(gram, 0)) for gram, weight in learnt.items()]
    assert max(apart) <= 2 * 10


def test_learnt_weights_of_a_sentence():
    """The kernel adds up what the plain-Python reading of a line finds in the lexicon."""
    module = fitting_script()
    lines = [
        *module.read("prose.txt"), *module.read("frame.txt"), *HELD_OUT_PROSE, *HELD_OUT_FRAME,
        "mixed 中文 words 和字 again", "x", "第1页 page 2", "École des Mines, ÉCOLE", "don't_do 3rd",
    ]  # fmt: skip
    units = split_units(pa.array(lines), sentences=False)
    labelled = unit_forms(units).labelled
    number = [name for name, _ in FEATURES].index("learnt")
    found = features(units, np.arange(len(units)), labelled)[:, number]
    known = learnt_weights()
    for value, line in zip(found, lines, strict=True):
        grams = module.grams(line)
        want = sum(known.get(gram, 0) for gram in grams) / 100 / len(grams) ** 0.25
        assert value == pytest.approx(want), line


def test_places_speak_for_prose_and_frame():
    """A sentence gains between others, and loses as a line at the edge of texts."""
    quality = np.array([0.5, 0.5, 0.5, 0.5])
    occurrences = np.array([100, 100, 100, 100])
    alone, edges = np.array([0, 50, 100, 100]), np.array([0, 0, 0, 100])
    found = in_context(quality, occurrences, alone, edges)
    assert (np.diff(found) < 0).all()
    assert found[0] > 0.5 > found[3]
    z = np.log(found / (1 - found))
    assert z[1] == pytest.approx((z[0] + z[2]) / 2, abs=0.01)


def test_weights_file(tmp_path):
    """A file of weights is read; one with an unknown feature, a string or no JSON is refused."""
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"final": 2, "bias": -1.5}))
    weights = read_weights(path)
    assert weights[0] == -1.5
    assert weights[1] == 2
    assert len(weights) == len(FEATURES)
    for content in ('{"nope": 1}', '{"final": "2"}', "[1]", "{"):
        path.write_text(content)
        with pytest.raises(RecordError, match=r"w\.json"):
            read_weights(path)
    with pytest.raises(RecordError, match="cannot be read"):
        read_weights(tmp_path / "absent.json")
