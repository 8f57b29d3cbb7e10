"""Words that the sentence stages know: function words, words of web pages, labels, abbreviations.

Everything is a plain list to read and extend. Chinese entries are phrases of two to four
characters, found wherever they stand; entries of other scripts are whole words, case-folded.
"""


def _words(text: str) -> list[str]:
    return text.split()


def phrases(text: str) -> list[str]:
    """Return the entries of a list whose entries are parted by ``|`` or, but for spaces, lines."""
    entries = []
    for line in text.replace("|\n", "|").strip().split("|"):
        entries.append(" ".join(line.split()))
    return [entry for entry in entries if entry]


FUNCTION_WORDS = _words("""
a an the this that these those my your his her its our their some any no every each all both either
neither one and or but nor so yet if then than because although though while when where who whom
whose which what why how as at by for from in into of off on onto over out to toward under until up
upon with within without about above across after against along among around before behind below
beneath beside between beyond down during except like near past since through throughout not never
only also just even still too very more most much many few less least such other another same own
there here now once i you he she it we they me him us them myself himself herself itself themselves
der die das den dem des ein eine einer eines einem einen und oder aber nicht mit von zu im in am auf
für ist sind war wird werden hat haben sich als auch wie bei aus nach durch über dass wenn nur noch
le la les un une des du de et ou mais ne pas que qui dans sur pour par avec est sont était il elle
nous vous ils elles ce cette ces se son sa ses leur au aux plus comme
el los las una unos unas del y o pero no que en por para con es son era su sus se lo al como más
il lo gli i uno di da con su per tra fra e ma non che è sono della del dei delle nel alla si
o os as um uma do da dos das em no na nos nas por com e mas não é são ao ser foi se
de het een van en of maar niet met voor door op te dat die zijn was worden ook
и в во не на я быть он с что а по это она к но мы как из у за от о для же вы так его все
""")

VERB_CUES = _words("""
is are was were be been being am has have had having do does did done will would shall should can
could may might must ought means refers applies requires provides contains consists says said know
knows knew think thought see saw seen go goes went gone come comes came make makes made take takes
took give gives gave given find finds found let lets lies lie stands keep keeps becomes became
ist sind war waren wird werden wurde wurden hat haben hatte kann muss soll
est sont était ont avait sera peut doit
es son era fue ha han puede debe
è sono era ha hanno può deve
é são foi tem pode deve
""")

STRONG_WORDS = _words("""
cookies subscribe unsubscribe newsletter newsletters copyright sitemap login logout signup rss
breadcrumb pageview pageviews permalink trackback webmaster copyrighted tweet retweet whatsapp
linkedin facebook twitter instagram pinterest reddit youtube tiktok weibo wechat checkout paywall icp
adblock blocker cookie logged javascript advertisement advertisements sponsored hotline impressum datenschutz
""")
"""One of them makes a short line part of a page's frame; in long prose it takes several."""

WEAK_WORDS = _words("""
home homepage menu contact about faq faqs news blog blogs forum archive archives category
categories tag tags tagged topics products careers jobs press privacy terms disclaimer conditions
register password browser website site pages webpage online email e-mail mail inbox articles post
posts posted stories headline headlines editor edition editorial published publisher updated
updates update print share shared sharing follow followers click tap browse download upload
comment comments reply replies views view likes rated rating reviews continue next previous prev
back top skip navigation link links related popular trending latest recent more close
accept decline reject settings preferences consent analytics traffic personalize personalise
partners offers deals sale cart shop shipping delivery discount coupon promo free trial sponsor
ads ad advert sources photo gallery credit powered hosted theme reserved trademark trademarks
reproduced republished redistributed inc ltd llc corp gmbh mobile apps ios android pdf desktop
feed agree visit visiting join members membership community donate desk staff reporter
correspondent contributed reporting minutes min ago edited advertise inquiries feedback vol button
sidebar footer header widget tab toggle bookmark favorites favourites save wishlist showing per
profile sign
""")
"""Words that frames of pages are full of, but that prose uses too."""

STRONG_PHRASES = """
rights reserved|privacy policy|cookie policy|of service|click here|read more|learn more|sign up|
sign in|log in|log out|subscribe to|our newsletter|skip to|main content|main menu|share this|
share on|share via|email this|print this|follow us|contact us|about us|like us|join us|us on|
our site|our website|our partners|your experience|your inbox|your email|email address|
your browser|your account|last updated|last modified|posted on|posted by|posted in|published on|
published by|filed under|photo by|image credit|photo credit|reporting by|powered by|
related articles|related posts|related stories|more stories|more from|also like|next page|
previous page|next article|previous article|next post|previous post|back to|leave a|see all|
show more|load more|view more|see more|all comments|min read|minutes ago|hours ago|days ago|
this website|this site|without permission|prior permission|written permission|free trial|add to|
to cart|shopping cart|customer service|site map|breaking news|press release|for subscribers|
print edition|online edition|story appeared|article appeared|appeared in|enable javascript|
please enable|all cookies|use cookies|uses cookies|of cookies|manage preferences|cookie settings|
accept all|reject all|by continuing|download our|our app|mobile app|download the|page views|
report abuse|send feedback|stay connected|stay tuned|breaking alerts|latest news|top stories|
most read|most popular|comments off|comments are|are closed|free articles|articles remaining|
mailing list|ships within|report this|or republished|be reproduced|community guidelines|
unlimited access|fields are|are marked|video below|find us|this blog|cookies to|third party|
third parties|opt out|no comments|jump to|new window|new tab|privacy notice|legal notice|
privacy settings|and conditions|to subscribe|be notified|app store|google play|privacy terms|
save this|first to|to unsubscribe|views expressed|reproduction in|originally published|select your|your language|please wait|call us|our forum|recommended for|trending now|most viewed|editor's picks
"""
"""Pairs of words, read as :func:`phrases` does."""

CHINESE_STRONG = """
版权所有|版权归|版权声明|责任编辑|责编|编辑部|上一篇|下一篇|上一页|下一页|点击|点此|点我|返回首页|返回顶部|
返回列表|返回上|网站首页|首页|当前位置|所在位置|您的位置|转载|注明出处|注明来源|请注明|未经授权|
不得转载|严禁转载|免责声明|联系我们|关于我们|加入收藏|设为首页|扫一扫|扫码|二维码|公众号|微信|微博|客户端|
朋友圈|分享到|分享至|一键分享|点赞|订阅|登录|登陆|注册|备案|许可证号|公网安备|主办单位|承办单位|技术支持|
浏览次数|阅读次数|阅读量|点击数|点击量|浏览量|访问量|发布时间|更新时间|发布日期|更新日期|发表时间|文章来源|信息来源|
稿件来源|新闻来源|来源网|打印本页|关闭窗口|关闭本页|相关阅读|相关文章|相关新闻|相关链接|推荐阅读|延伸阅读|热门文章|
热点新闻|阅读全文|查看全文|查看更多|加载更多|更多精彩|更多内容|网友评论|发表评论|我要评论|参与评论|评论区|隐私政策|
用户协议|服务条款|使用条款|网站地图|友情链接|站点地图|投稿邮箱|举报电话|客服电话|联系电话|广告|下载客户|下载应用|免费下载|
立即下载|本网站|本站|本网|原标题|字号|字体|打印|纠错|收藏|网站声明|网络文明|热线|邮箱|敬请关注|欢迎关注|关注我们|请关注|
长按识别|识别图|侵权|联系删除|删除处理|记者|通讯员|讯员|图片来源|供图|摄影|校对|审核|编审|来源|稿源|编辑
"""
CHINESE_WEAK = """
版权|网站|网页|页面|文章|本文|新闻|资讯|频道|栏目|专题|标签|分类|搜索|导航|菜单|视频|图片|评论|回复|发布|更新|浏览|
阅读|更多|关闭|返回|下载|手机|分享|推荐|热门|最新|相关|会员|账号|密码|用户|购物车|产品|服务|公司|帮助|中心|论坛|博客|
日报|晚报|新华|日期|时间|次数|字数|作者|版面|版次|第版|编号|电话|地址|邮编|传真|京公|沪公|粤公|有限公司|保留|权利|
继续|接受|同意|使用|体验|浏览器|欢迎|免费|立即|请勿|全文|原文|出处|许可|授权|商用|您|来自
"""

CHINESE_FUNCTION = (
    "的了是在不和有我他她它你这那为之也与者而于其以所因由从被把将到就都又但或如若则及并且"
)
CHINESE_VERBS = "是有在了为会能不说要应可须得无使令当知见谓曰"

LABELS = """
source|sources|tags|tag|tagged|filed under|categories|category|posted by|posted in|posted on|published|
published on|published by|updated|last updated|last modified|edited by|editor|editors|photo|photo by|
photo credit|image credit|image source|credit|previous|next|previous article|next article|previous post|
next post|previous page|next page|related|related articles|related posts|read more|read also|see also|
also read|share|share on|share this|share this article|contact|topics|views|page views|reporting by|
writing by|editing by|views count|keywords|permalink|breadcrumb|you are here|location|edition|print edition|
上一篇|下一篇|上一页|下一页|上一条|下一条|上篇|下篇|责任编辑|责编|编辑|主编|来源|稿源|文章来源|信息来源|新闻来源|
稿件来源|图片来源|发布时间|更新时间|发表时间|发布日期|更新日期|浏览次数|浏览量|阅读次数|阅读量|阅读|点击|点击数|点击量|
点击次数|访问量|标签|关键词|分享到|分享至|分类|所属分类|当前位置|您的位置|您当前的位置|所在位置|字号|字体|校对|审核|
编审|值班编委|本文编辑|本期编辑|本文来源|版面编辑|相关阅读|相关文章|相关新闻|相关链接|推荐阅读|延伸阅读|原标题|原文链接|
转载请注明出处|本文链接|文章标签|记者|通讯员|摄影|供图|发布人|发布者|信息员|日期|时间|下一章|上一章
"""
"""What stands before a colon in the lines of a page's frame: the rest of such a line varies."""

LABELS_WITHOUT_COLON = """
posted by|posted in|posted on|filed under|written by|published on|published by|last updated|last
updated on|last modified|photo by|edited by|reporting by|updated on|powered by|hosted by
"""
"""Labels that need no colon."""

DATE_WORDS = _words("""
january february march april may june july august september october november december
jan feb mar apr jun jul aug sep sept oct nov dec
monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun
am pm a.m p.m gmt utc est edt pst pdt cet bst ist
""")
"""They count as numbers."""

READER_WORDS = _words("you your our us please we my")
CHINESE_READER = "您|请|我们|本站|本网|本文|本公众号|小编|欢迎|你可以"
"""Who is spoken to, and who speaks: in the frame it is the reader, and the site."""

ABBREVIATIONS = _words("""
mr mrs ms dr prof rev hon st sr jr gen col lt sgt capt cmdr maj gov sen rep pres fr
vs etc al eg ie cf viz approx ca resp esp incl fig figs eq eqs sec ch chap vol vols no nos pp ed eds
art arts para paras app ref refs jan feb mar apr jun jul aug sep sept oct nov dec
mon tue tues wed thu thur thurs fri dept est ave blvd rd mt ft
bzw ca usw vgl nr abs satz bd hrsg evtl ggf inkl zzgl str tel mio mrd
""")
"""A full stop after one of them ends no sentence."""
