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
adblock blocker cookie logged signin captcha pingback unfollow repost retweeted telegram snapchat
clickbait sku wishlist toolbar navbar dropdown hyperlink paywalled slideshow livestream podcast
subscriber subscribers username logo favicon javascript advertisement advertisements sponsored hotline impressum datenschutz
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
partners offers deals sale cart shop shipping delivery discount coupon promo free sponsor
ads ad advert sources photo gallery credit powered hosted theme reserved trademark trademarks
reproduced republished redistributed inc ltd llc corp gmbh mobile apps ios android pdf desktop
feed agree visit visiting join members membership community donate desk staff reporter
correspondent contributed reporting minutes min ago edited advertise inquiries feedback vol button
sidebar footer header widget tab toggle bookmark favorites favourites save wishlist showing per
profile sign
guest visitor visitors registered forgot remember refresh reload
loading load redirect redirected requested unavailable expired form captcha verify verification confirm cancel dismiss expand
collapse enlarge slide slides caption videos stream
player playlist episode subscribed alerts alert notifications notification popup banner
directions fax tel phone telephone toll helpdesk
estimate orders ordering buy purchase
qty basket voucher refunds guarantee warranty brands
stores retailer collection sort sorting relevance results
keyword keywords tagline respond votes vote poll
quiz survey upvote downvote moderator moderated subforum
newest oldest featured promoted promotion sponsors
affiliate syndicated syndication wire bureau anchor byline dateline chronicle gazette
herald tribune subscription trial premium upgrade unlock pricing
template themes plugin hosting browsers
explorer firefox chrome safari flash resolution optimized viewed accessibility disclosure notice
policies imprint trademarked attribution
file files attachment attachments publish
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
most read|most popular|comments off|comments are|free articles|articles remaining|
mailing list|ships within|report this|be reproduced|community guidelines|
unlimited access|fields are|are marked|video below|find us|this blog|cookies to|third party|
third parties|no comments|jump to|new window|new tab|privacy notice|legal notice|
privacy settings|and conditions|to subscribe|be notified|app store|google play|privacy terms|
save this|to unsubscribe|views expressed|reproduction in|originally published|your language|please wait|call us|our forum|recommended for|trending now|most viewed|editor s|
page not|no longer|longer available|been removed|been moved|been deleted|
went wrong|try again|again later|error occurred|
not available|temporarily unavailable|coming soon|404 error|error 404|error 403|
error 500|internal server|bad gateway|server error|find out|out more|discover more|see less|show less|
read less|full story|full article|read full|whole story|view full|view larger|larger image|
full size|full screen|click for|click on|click to|tap to|tap here|swipe to|hover over|press enter|
to expand|keep reading|continue reading|start reading|story continues|
article continues|continues below|continued below|below advertisement|forgot your|forgot password|
forgotten password|your password|lost password|reset password|remember me|stay signed|signed in|
logged in|log on|sign out|sign off|create account|create an|free account|my account|
your profile|edit profile|account settings|register now|register here|register for|
new here|new user|join now|join for|get started|
day trial|cancel anytime|buy now|buy it|order now|shop now|
your order|your basket|your cart|your bag|cart is|view cart|view basket|in stock|of stock|
sold out|free delivery|free returns|free quote|price match|special offer|
special offers|limited time|customer reviews|customer support|live chat|contact support|help center|
help centre|opening hours|business hours|office hours|get directions|view map|toll free|call now|
call today|email us|send us|your comment|
your review|your reply|your feedback|been sent|for visiting|for subscribing|
for registering|successfully submitted|post comment|add your|
responses to|replies to|
comments for|newer comments|older comments|older posts|newer posts|older entries|newer entries|
older post|newer post|older stories|previous story|next story|next chapter|previous chapter|
jump back|back home|search results|results for|results found|no results|
sort by|filter by|filter results|show all|view by|per page|items per|showing results|
what others|most shared|most commented|most emailed|editors picks|s picks|top picks|
you missed|missed it|might like|up next|watch now|watch live|listen live|
listen now|play video|watch video|photo gallery|image caption|media caption|getty images|
stock photo|staff writer|staff report|staff reporter|associated press|
respective owners|otherwise noted|all trademarks|under license|
creative commons|all content|content copyright|legal disclaimer|terms apply|not responsible|
external sites|external links|report error|report post|
browser settings|your settings|requires javascript|javascript is|javascript disabled|
best viewed|viewed in|internet explorer|supported browser|browser is|
upgrade your|update your|screen reader|skip navigation|skip advertisement|site search|search this|
search for|search our|enter keyword|choose your|
designed by|developed by|built with|built by|made with|maintained by|hosted by|theme by|web design|
proudly powered|change language|switch to|bookmark the|the permalink|
this post|this article|this story|this page|trackback url|rss feed|via rss|via email|
got it|no thanks|maybe later|close this|close window|this window|close menu|
open menu|main page|home page|all rights|some rights|pin it|email newsletter|free newsletter|
daily newsletter|weekly newsletter|email updates|news alerts|email alerts|breaking newsletter|
page not|not found|page you|url was|requested page|requested url|page has|page does|this material|to comment|rewritten or|that page|page can|page may|page is|page cannot|page could|
this video|this content|this item|this link|this product|account has|session has|your session|
to enlarge|enter your|select your|a comment|an account|file not|
respective owners|their owners|stated otherwise|copyright of|refresh the|
upgrade your|outdated browser|signing up|subscriber login|a member|customer service
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
长按识别|识别图|侵权|联系删除|删除处理|
退出登录|用户登录|会员登录|忘记密码|记住密码|找回密码|验证码|注册会员|会员中心|个人中心|用户中心|帮助中心|
客服中心|意见反馈|投诉建议|在线客服|在线留言|意见箱|留言板|法律声明|隐私保护|隐私条款|隐私权|隐私声明|网站导航|站内搜索|高级搜索|
搜索结果|面不存在|未找到页|面未找到|无法访问|页面已|该页面|了解更多|了解详情|更多信息|已被删除|不存在或|找不到|请稍候|请稍后|稍后再试|正在加载|加载中|
加载失败|系统繁忙|系统错误|网络异常|出错了|刷新|返回上|返回主|返回上一|后退|猜你喜欢|大家都在|为您推荐|为你推荐|
编辑推荐|随机推荐|热点排行|热门排行|排行榜|点击排行|阅读排行|最新文章|最新资讯|热门推荐|精彩推荐|精彩图片|
图片新闻|头条推荐|加入购物|购物车|立即购买|立即抢购|在线咨询|在线订购|免费试|免费咨询|手机版|电脑版|触屏版|
移动版|繁体版|繁體版|简体版|旧版|新版|无障碍|适老|标题导航|版面导航|本版新闻|上一版|下一版|前一版|后一版|
首页|尾页|末页|上页|下页|跳转|共享|复制链接|转发|举报|投诉|下载附件|附件|放大|缩小|默认|公众平台|小程序|
视频号|抖音|头条号|百家号|网易号|搜狐号|官方微|扫码关注|识别二维|关注公众|星标|在看|广告服务|诚聘英才|
招贤纳士|商务合作|合作伙伴|网站合作|市场合作|主管单位|协办单位|标识码|网备|经营许可|许可证|视听节目|文网|
建议使用|浏览器|分辨率|制作维护|设计制作|网站建设|网站制作|本报讯|本报记者|本网讯|署名|授权转载|禁止转载|
谢绝转载|转载请|转自|摘编|镜像|翻印|必究|记者|通讯员|讯员|图片来源|供图|摄影|校对|审核|编审|来源|稿源|编辑
"""
CHINESE_WEAK = """
版权|网站|网页|页面|文章|本文|新闻|资讯|频道|栏目|专题|标签|分类|搜索|导航|菜单|视频|图片|评论|回复|发布|更新|浏览|
阅读|更多|关闭|返回|下载|手机|分享|推荐|热门|最新|相关|会员|账号|密码|用户|购物车|产品|服务|公司|帮助|中心|论坛|博客|
日报|晚报|新华|日期|时间|次数|字数|作者|版面|版次|第版|编号|电话|地址|邮编|传真|京公|沪公|粤公|有限公司|保留|权利|
登出|退出|切换|展开|收起|隐藏|显示|全部|详情|详细|点选|点按|滑动|播放|音频|直播|回放|专栏|作品|粉丝|
人气|热度|评分|打分|投票|排行|头条|要闻|快讯|动态|公告|通知公告|客服|咨询|订购|价格|优惠|促销|配送|快递|包邮|
库存|商品|商城|店铺|品牌|加盟|招聘|试用|升级|套餐|提示|错误|失败|成功|提交|取消|确定|确认|重置|输入|请输入|选择|
语言|繁体|简体|中文版|英文版|无法|链接|网址|域名|服务器|系统|网络|设备|平台|官方|官网|运营|主管|主办|承办|协办|
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
image|images|image courtesy|photograph|photos|caption|image caption|media caption|
date posted|posted|post date|file under|
article id|sku|item number|product code|our price|
file size|file type|downloads|attachment|attachments|phone|telephone|tel|fax|mobile|
office hours|opening hours|comments|replies|likes|
sort by|filter by|order by|select language|search for|
login|username|password|user name|sponsored by|presented by|brought to you by|see more|more on|
more in|recommended|up next|subscribe|follow us|connect with us|page|pages|
第0版|第0页|版次|版面|本版编辑|本版责编|美编|组版|制图|撰文|撰稿|签发|初审|复审|
终审|一审|二审|三审|值班主任|总编|副主编|实习编辑|实习生|本报记者|本网记者|特约记者|见习记者|联合报道|
主办|承办|协办|主管|主办单位|承办单位|主管单位|协办单位|运营单位|技术支持|网站标识码|备案号|许可证编号|
电话|联系电话|传真|邮编|邮箱|电子邮箱|地址|联系地址|联系人|联系方式|客服|客服电话|热线|投诉电话|举报电话|
举报邮箱|商务合作|微信|微信号|微信公众号|公众号|微博|qq群|网址|官网|用户名|密码|验证码|账号|
附件下载|文件大小|文件类型|发布|发布机构|发布单位|发布人员|发文机关|索引号|信息索引|浏览|浏览数|
阅读数|点击率|人气|评论数|回复|回复数|点赞|点赞数|收藏|收藏数|转发|字数|上一章|前一篇|后一篇|
前一页|后一页|上一节|下一节|上一主题|下一主题|上一条新闻|下一条新闻|本文标签|相关标签|相关专题|相关搜索|
热门标签|热门搜索|专题|栏目|频道|所属栏目|本文地址|文章链接|本页网址|原文地址|字体大小|字号大小|
温馨提示|友情提示|特别提示|特别声明|版权声明|本站声明|免责声明|郑重声明|
上一篇|下一篇|上一页|下一页|上一条|下一条|上篇|下篇|责任编辑|责编|编辑|主编|来源|稿源|文章来源|信息来源|新闻来源|
稿件来源|图片来源|发布时间|更新时间|发表时间|发布日期|更新日期|浏览次数|浏览量|阅读次数|阅读量|阅读|点击|点击数|点击量|
点击次数|访问量|标签|关键词|分享到|分享至|分类|所属分类|当前位置|您的位置|您当前的位置|所在位置|字号|字体|校对|审核|
编审|值班编委|本文编辑|本期编辑|本文来源|版面编辑|相关阅读|相关文章|相关新闻|相关链接|推荐阅读|延伸阅读|原标题|原文链接|
转载请注明出处|本文链接|文章标签|记者|通讯员|摄影|供图|发布人|发布者|信息员|日期|时间|下一章|上一章
"""
"""What stands before a colon in the lines of a page's frame: the rest of such a line varies."""

LABELS_WITHOUT_COLON = """
posted by|posted in|posted on|filed under|written by|published on|published by|last updated|last
updated on|last modified|photo by|edited by|reporting by|updated on|powered by|hosted by|image caption|media caption|photo credit|image credit|
editing by|compiled by|additional reporting by|produced by|presented by|
designed by|developed by|theme by|proudly powered by|tagged with|tagged in|image courtesy of|
photograph by|picture by|reporting from|第0版
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

COMMAND_WORDS = _words("""
accept add apply ask become book bookmark browse buy call cancel change chat check choose clear click close
compare connect contact continue copy create customize delete discover dismiss donate download edit email
enable enlarge enter expand explore filter find follow get give go hide install join jump keep learn leave
like listen load locate log login make manage meet notify open order pin play please post press print rate
read refresh register reload remember remove reply report request reserve reset retry return save scroll
search see select send share shop show sign skip sort start stay stop submit subscribe switch tap tell
toggle try turn tweet unsubscribe update upgrade upload use verify view visit vote watch write zoom
""")
"""Short lines without a full stop that begin with one are calls to click."""

HEADING_WORDS = _words("""
chapter section article part book volume act scene canto stanza psalm verse table figure fig appendix annex
schedule title clause paragraph lesson exercise example note theorem lemma corollary definition proof
introduction conclusion conclusions references bibliography abstract summary preface foreword prologue
epilogue acknowledgements acknowledgments contents index glossary background motivation discussion methods
""")
HEADING_PHRASES = """
章|节|条|卷|回|总则|附则|分则|细则|罚则|前言|序言|序|跋|引言|绪论|目录|结论|结语|摘要|参考文献|附录|附表|施行|批准|国务院|公布|
修订|修正|通过|决议
"""
"""Short lines without a full stop that begin with one of the words, or have one of the phrases, are
headings and dates of laws."""

COUNTER_WORDS = _words("""
page pages pg p of at on to the by showing result results comment comments reply replies response
responses view views like likes share shares vote votes item items photo photos image images read min mins
minutes ago hits reads star stars rating posts votes people votes hour hours day days week weeks
""")
CHINESE_COUNTERS = "第共页頁版到转跳当前"
"""Lines of nothing but numbers, dates and these count pages, comments and the like."""

ABBREVIATIONS = _words("""
mr mrs ms dr prof rev hon st sr jr gen col lt sgt capt cmdr maj gov sen rep pres fr
vs etc al eg ie cf viz approx ca resp esp incl fig figs eq eqs sec ch chap vol vols no nos pp ed eds
art arts para paras app ref refs jan feb mar apr jun jul aug sep sept oct nov dec
mon tue tues wed thu thur thurs fri dept est ave blvd rd mt ft
bzw ca usw vgl nr abs satz bd hrsg evtl ggf inkl zzgl str tel mio mrd
""")
"""A full stop after one of them ends no sentence."""
